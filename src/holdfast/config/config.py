"""The typed configuration. Each option is one field: type, trust rule, documentation, default.

The JSON Schema, the tables of `docs/config.md`, the checks of a layer and the trust rules are generated from these
fields. `layers` reads the files.
"""

# No `from __future__ import annotations`: msgspec would evaluate the text of every annotation again for each struct.

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

from msgspec import Meta
from msgspec.structs import replace

from holdfast.config.merge import merge_layer, plain_table
from holdfast.config.options import (
    ADD,
    FREE,
    HIDE,
    HOSTS,
    IDENTITY,
    KEEP,
    LOWER,
    NARROWED,
    OWN_HOSTS,
    PATTERNS,
    SWITCH_OFF,
    SWITCH_ON,
    TAKE_OUT,
    USER_ONLY,
    Approves,
    Count,
    Mark,
    Name,
    Names,
    Seconds,
    Section,
    Synonyms,
    Table,
    TrustRule,
    describe_added,
    describe_value,
    is_section,
    join_names,
    lower_limit,
    names_added,
    options,
    ordered,
    per_entry,
    tighten_struct,
)
from holdfast.config.tool_families import (
    BrowserConfig,
    GoogleConfig,
    K8sConfig,
    MediaConfig,
    MemoryConfig,
    MinioConfig,
    NetworkConfig,
    WebConfig,
)
from holdfast.contract.enums import Profile, Risk
from holdfast.contract.errors import ConfigError
from holdfast.contract.widening import WideningKind

SHELL_READONLY: Final = "$shell-readonly"
"""The preset that approves read-only shell commands, as classified by `rules.shell`. It names no tools."""

Caps = Literal["standard", "small"]
Action = Literal["confirm", "log", "silent"]
Autonomy = Literal["cautious", "standard", "autonomous"]
ThinkingLevel = Literal["minimal", "low", "medium", "high", "max"]
CacheRetention = Literal["none", "short", "long"]
ForeignThinking = Literal["preserve", "drop"]
Reach = Literal["project", "anywhere"]
Protocol = Literal["auto", "native", "text", "constrained"]
Vision = bool | Literal["auto"]
ModelApi = Literal["anthropic", "openai", "openai-chat", "google", "vertex"]

PENDING_TTL: Final = 7 * 86_400.0
"""The default of `pending.ttl` in seconds, for calls that do not belong to a document."""
Budget = Annotated[int, Meta(ge=0, le=2**31)]
Percent = Annotated[str, Meta(pattern=r"^(100|[1-9][0-9]?)%$")]
Temperature = Annotated[float, Meta(ge=0, le=2)]
ServerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(?!\n)$")]

READ_DENY: Final = (
    "~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.config/gh", "~/.config/hub", "~/.config/rclone",
    "~/.kube", "~/.docker/config.json", "~/.netrc", "~/.git-credentials", "~/.npmrc", "~/.pypirc",
    "~/.cargo/credentials.toml", "~/.terraform.d", "~/.vault-token", "~/.password-store", "~/.local/share/keyrings",
    "~/.mozilla", "~/.config/google-chrome", "~/.config/chromium", "$secrets",
)  # fmt: skip
ENVIRONMENT: Final = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "COLUMNS", "LINES", "USER", "LOGNAME", "SHELL",
)  # fmt: skip


NAMED: Final = "calls of the tools it names"
AVAILABLE: Final = "calls of tools that were not available"
COMMANDS: Final = "calls that run commands"
SANDBOXED: Final = "shell commands in the sandbox"
FILES: Final = "calls that use files or run commands"
UNCOVERED: Final = "every call that no rule covers"


def _wider_profile(before: Profile, after: Profile) -> list[str]:
    order = get_args(Profile)
    return [f"the tools of the profile {after} can be called"] if order.index(after) > order.index(before) else []


def _describe_changed(sentence: str) -> Callable[[Table, Table], list[str]]:
    """Return a function that formats `sentence` with the names of new and changed entries of a table."""

    def describe(before: Table, after: Table) -> list[str]:
        names = [name for name in after if name not in before or before[name] != after[name]]
        return [sentence.format(join_names(names))] if names else []

    return describe


class PolicyLayer(Section, frozen=True, kw_only=True):
    """A narrower set of tools for an agent, a provider or an untrusted file; intersected with the other sets."""

    profile: Annotated[Profile | None, KEEP, "The initial set of tools."] = None
    allow: Annotated[Names, KEEP, "Tools added to the profile; never more than the caller has otherwise."] = ()
    deny: Annotated[Names, ADD, "Tools removed."] = ()
    caps: Annotated[Caps | None, ordered("small"), "How much a reading tool returns at once."] = None
    namespaces: Annotated[Names, PATTERNS, "Memory namespaces it may use, besides `memory.namespaces`."] = ("*",)
    source: Annotated[str, KEEP, Mark.COMPUTED, "The file that sets this limit, for messages."] = ""


LAYERS: Final = per_entry("add names, and denials to known ones", new=lambda layer: layer)
"""A new entry can only narrow, so it is accepted whole."""


class ToolsConfig(Section, frozen=True, kw_only=True):
    profile: Annotated[Profile, NARROWED, Approves(AVAILABLE, _wider_profile), "The initial set of tools."] = "coding"
    allow: Annotated[
        Names,
        NARROWED,
        Approves(AVAILABLE, describe_added("{} can be called")),
        "Tools, patterns (`browser.*`) and groups (`group:web`) added to the profile.",
    ] = ()
    deny: Annotated[
        Names,
        ADD,
        Approves(AVAILABLE, describe_added("{} can be called again", removed=True)),
        "Tools, patterns and groups removed, whatever else allows them.",
    ] = ()
    caps: Annotated[
        Caps,
        ordered("small", "standard"),
        "How much a reading tool returns at once: `small` (200 lines of a file) suits models with a small context. Can "
        "also be set for individual `agents` and `providers`.",
    ] = "standard"
    default_timeout: Annotated[Seconds, LOWER, "Timeout in seconds for calls without one of their own."] = 30.0
    strict_check: Annotated[
        Literal["warn", "error"],
        ordered("error", "warn"),
        "What happens with a `strict` tool whose schema breaks the rules of strict mode; `error` rejects the tool.",
    ] = "warn"
    max_concurrent: Annotated[Count, LOWER, "Maximum number of calls that run at the same time."] = 8
    search_threshold: Annotated[
        Count, LOWER, "Above this number of tools, the model gets a search tool instead of the whole list."
    ] = 100
    max_depth: Annotated[int, Meta(ge=0, le=1000), LOWER, "How deep calls may nest; 0 forbids calls made by tools."] = 8
    modules: Annotated[
        Names,
        USER_ONLY,
        Approves(AVAILABLE, describe_added("the tools of {} can be called")),
        "Import paths of modules that define tools.",
    ] = ()
    entry_points: Annotated[
        bool,
        SWITCH_OFF,
        Approves(AVAILABLE, describe_value("the tools of installed packages can be called", True)),
        "Whether tools of installed packages (entry points) are loaded.",
    ] = True
    agents: Annotated[
        dict[str, PolicyLayer],
        LAYERS,
        Approves(AVAILABLE, _describe_changed("the tools of the agents {} change")),
        "Narrower tool sets for agents, by name: `profile`, `allow`, `deny`, `caps`.",
    ] = {}
    providers: Annotated[
        dict[str, PolicyLayer],
        LAYERS,
        Approves(AVAILABLE, _describe_changed("the tools of models of {} change")),
        "Narrower tool sets for model providers, by name.",
    ] = {}
    skills: Annotated[
        dict[str, Name],
        KEEP,
        Approves(AVAILABLE, _describe_changed("the tools of the skills {} change")),
        "Skill folders by name, relative to this file. Each contains a `SKILL.md`, a `manifest.json` or both. The skill"
        " can be used once you trust it (`holdfast trust FOLDER`), and until one of the two changes.",
    ] = {}
    config: Annotated[
        dict[str, dict[str, Any]],
        KEEP,
        Approves(NAMED, _describe_changed("other settings apply to {}")),
        "Settings of individual tools, by name or alias.",
    ] = {}
    narrow: Annotated[
        tuple[PolicyLayer, ...],
        KEEP,
        Mark.COMPUTED,
        "Tool sets of untrusted files: a tool is available only if each of them contains it.",
    ] = ()

    def settings_of(self, names: Sequence[str]) -> Table | None:
        """Return the merged settings of a tool under all its names; the first name has precedence."""
        found = [self.config[name] for name in reversed(names) if name in self.config]
        return {key: value for settings in found for key, value in settings.items()} if found else None


class Preset(Section, frozen=True, kw_only=True):
    approve: Annotated[Names, KEEP, "Tools that the preset approves."] = ()
    deny: Annotated[Names, ADD, "Tools that the preset denies; a denial overrides every approval."] = ()


PRESETS: Final = per_entry("add denials", new=lambda preset: tighten_struct(Preset(), preset) if preset.deny else None)


def _preset_changes(before: Mapping[str, Preset], after: Mapping[str, Preset]) -> list[str]:
    sentences: list[str] = []
    for name, preset in after.items():
        old = before.get(name, Preset())
        sentences += describe_added(f"{{}} will run without asking where {name} is used")(old.approve, preset.approve)
        sentences += describe_added(f"{name} no longer denies {{}}", removed=True)(old.deny, preset.deny)
    return sentences


class CommandRule(Section, frozen=True, kw_only=True):
    """A rule for shell commands that start with given words."""

    rule: Annotated[Name, "The words that a command starts with; a final `*` stands for any further operands."]
    verdict: Annotated[
        Literal["approve", "ask", "deny"],
        Synonyms({"allow": "approve", "confirm": "ask"}),
        "The decision for such commands, also when they are nested in others; `allow` and `confirm` are synonyms.",
    ]
    options: Annotated[Names, Mark.WHOLE, "Options that an approving rule accepts; `--name=` with any value."] = ()
    operands: Annotated[
        Literal["known", "files"],
        "What `*` matches: operands of a program that is known to only read (`known`), or existing files and folders"
        " of the project, whatever the program does with them (`files`).",
    ] = "known"
    match: Annotated[
        Names, Mark.WHOLE, "Example commands that the rule must match; checked when the configuration is loaded."
    ] = ()
    not_match: Annotated[Names, Mark.WHOLE, "Example commands that it must not match."] = ()
    network: Annotated[
        Literal["on"] | Names,
        Mark.WHOLE,
        "Hosts that such a command can reach beyond `sandbox.network`, or `on` for all.",
    ] = ()
    read: Annotated[Names, Mark.WHOLE, "Paths it can read although `sandbox.read_deny` or the sandbox hides them."] = ()
    write: Annotated[Names, Mark.WHOLE, "Folders it can change beyond `sandbox.writable`."] = ()


def _with_commands(base: tuple[CommandRule, ...], wanted: tuple[CommandRule, ...]) -> tuple[CommandRule, ...]:
    """Add the rules that ask or deny, without what they let a command reach."""
    strict = (replace(rule, network=(), read=(), write=()) for rule in wanted if rule.verdict != "approve")
    return (*base, *(rule for rule in dict.fromkeys(strict) if not _is_in(rule, base)))


def _approved_commands(before: tuple[CommandRule, ...], after: tuple[CommandRule, ...]) -> list[str]:
    new = [rule for rule in after if rule not in before]
    approved = [f"`{rule.rule}`" for rule in new if rule.verdict == "approve"]
    sentences = [f"commands that start with {join_names(approved)} will run without asking"] if approved else []
    for rule in new:
        hosts = ["the network"] if rule.network == "on" else list(rule.network)
        does = (("reach", hosts), ("read", rule.read), ("change", rule.write))
        subject = f"commands that start with `{rule.rule}`"
        sentences += [f"{subject} can {verb} {join_names(what)}" for verb, what in does if what]
    return sentences


def _approved_tools(before: Names | Name, after: Names | Name) -> list[str]:
    if isinstance(after, str):
        return [f"the function {after} decides which calls run without asking"]
    names = names_added(before, after)
    reading = ["shell commands that only read will run without asking"] if SHELL_READONLY in names else []
    tools = [f"the tools of {name}" if name.startswith("$") else name for name in names if name != SHELL_READONLY]
    return ([f"{join_names(tools)} will run without asking"] if tools else []) + reading


def _higher_risk(before: Risk | None, after: Risk | None) -> list[str]:
    if before is None or (after is not None and after.level <= before.level):
        return []
    return [f"a list can approve calls of {'any' if after is None else after} risk"]


def _fewer_people(before: Risk | None, after: Risk | None) -> list[str]:
    if before is None or (after is not None and after.level <= before.level):
        return []
    return [f"calls {'of any risk' if after is None else f'below {after} risk'} no longer need two people"]


def _is_in(rule: CommandRule, rules: tuple[CommandRule, ...]) -> bool:
    return any(replace(other, network=(), read=(), write=()) == rule for other in rules)


MORE_COMMANDS: Final = TrustRule("add rules that ask or deny, without wider access", _with_commands)


class ApprovalConfig(Section, frozen=True, kw_only=True):
    auto_approve: Annotated[
        Names | Name,
        NARROWED,
        Approves(NAMED, _approved_tools),
        "What runs without asking: tool names, patterns, `$presets` and module paths; or one function, "
        '`"pkg.mod:func"`. Functions and modules are accepted only from user-level configuration.',
    ] = ("$default",)
    excluded: Annotated[
        Names,
        ADD,
        Mark.COMPUTED,
        Approves(NAMED, describe_added("presets of auto_approve approve {} again", removed=True)),
        "Names removed from `auto_approve` that are not literally in it; filtered when presets are expanded.",
    ] = ()
    removed: Annotated[
        Names,
        ADD,
        Mark.COMPUTED,
        "Names removed from `auto_approve` that no later list adds again. Presets of that list may approve them; the "
        "sandbox, command rules and the absence of effects do not.",
    ] = ()
    importable: Annotated[
        Names,
        KEEP,
        Mark.COMPUTED,
        "Items of `auto_approve` from user-level configuration; only these may be import paths.",
    ] = ()
    auto_approve_sandboxed: Annotated[
        bool,
        SWITCH_OFF,
        Approves(SANDBOXED, describe_value("shell commands in the sandbox will run without asking", True)),
        "`true` runs shell commands without asking if they are sandboxed, and the sandbox has passed its escape tests "
        "on this machine. No other option implies it.",
    ] = False
    require_approval: Annotated[
        bool,
        SWITCH_ON,
        Approves(UNCOVERED, describe_value("every call that no rule covers will run without asking", False)),
        "`false` approves every call that no rule covers.",
    ] = True
    presets: Annotated[
        dict[Name, Preset],
        PRESETS,
        Approves(NAMED, _preset_changes),
        "Your own presets, by a name that starts with `$`: `approve`, `deny`.",
    ] = {}
    commands: Annotated[
        tuple[CommandRule, ...],
        Meta(max_length=1000),
        MORE_COMMANDS,
        Approves("commands that start with the words of a rule", _approved_commands),
        "Rules for shell commands, see below. Layers only add rules; the strictest matching rule wins.",
    ] = ()
    max_risk: Annotated[
        Risk | None,
        ordered(*Risk),
        Approves("calls above the risk limit", _higher_risk),
        "The highest risk that a list may approve.",
    ] = None
    two_people: Annotated[
        Risk | None,
        ordered(*Risk),
        Approves("calls that two people must approve", _fewer_people),
        "Calls of this risk or more are asked about whatever else approves them, and run only after two different "
        "people have approved them.",
    ] = None
    on_error: Annotated[
        Literal["skip", "ask"],
        ordered("ask", "skip"),
        Approves(
            "calls that need approval because a resolver failed",
            describe_value("a resolver that fails is skipped", "skip"),
        ),
        "What happens when a resolver fails: skip it, or require approval whatever the others decide.",
    ] = "skip"
    narrow: Annotated[
        tuple[Names, ...],
        KEEP,
        Mark.COMPUTED,
        "Lists of untrusted files: `auto_approve` approves nothing unless each of them approves it too.",
    ] = ()
    widen: Annotated[
        tuple[WideningKind, ...],
        TAKE_OUT,
        Approves(
            "nothing by itself: it limits what an answer or a rule can add", describe_added("an approval can give {}")
        ),
        "What an approval or a command rule may add to the sandbox for one call: `hosts`, the whole `network`, paths "
        "to `read` and `write`, and running `outside` the sandbox, which only an answer can allow.",
    ] = get_args(WideningKind)
    expires: Annotated[
        Seconds, LOWER, "Seconds after which an unused approval is void and the call ends as `expired`."
    ] = 86_400.0


class PendingConfig(Section, frozen=True, kw_only=True):
    ttl: Annotated[
        Seconds | None,
        lower_limit(unset=PENDING_TTL),
        "Seconds that a pending call waits for an answer before it ends as `expired`. Without it 7 days, and no limit "
        "for calls of a document.",
    ] = None


QuietHours = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9](?!\n)$")]


class NotifyConfig(Section, frozen=True, kw_only=True):
    terminal: Annotated[
        bool | Literal["osc9", "osc777", "bell"],
        KEEP,
        "Notify on the terminal of the daemon: `osc9` or `osc777` (a desktop notification by the terminal), `bell`, "
        "`false`, or `true`, which chooses by `TERM_PROGRAM` and `TERM`.",
    ] = True
    desktop: Annotated[bool, KEEP, "Notify with `notify-send`, where it is installed and a desktop session runs."] = (
        True
    )
    webhook: Annotated[
        Name | None, USER_ONLY, "The address that gets a signed POST request with the pending calls as JSON."
    ] = None
    webhook_secret: Annotated[
        Name | None,
        USER_ONLY,
        "The secret that signs requests to `webhook`, which needs it: `hook` stands for the table `[secrets.hook]`.",
    ] = None
    ntfy: Annotated[
        Name | None, USER_ONLY, "The address of an ntfy topic, such as `https://ntfy.example.org/my-topic`."
    ] = None
    ntfy_token: Annotated[
        Name | None, USER_ONLY, "The secret with the access token for `ntfy`: `ntfy` stands for `[secrets.ntfy]`."
    ] = None
    burst: Annotated[
        float,
        Meta(ge=0, le=600),
        KEEP,
        "Seconds after the first pending call in which further ones join the same notification.",
    ] = 2.0
    quiet: Annotated[
        QuietHours | None,
        KEEP,
        "Hours without notifications, in local time, such as `22:00-07:00`. Calls that are still pending when they end "
        "are notified then.",
    ] = None
    min_risk: Annotated[
        Risk, KEEP, "Calls of a lower risk are not notified. A call whose risk is unknown always is."
    ] = Risk.LOW

    def __post_init__(self) -> None:
        if self.quiet is not None and self.quiet[:5] == self.quiet[6:]:
            raise ValueError("quiet hours must end at another time than they start")


ACTIONS: Final = per_entry(
    "ask for confirmation",
    # Anything weaker for a new pattern could override the action of a wider pattern.
    new=lambda action: action if action == "confirm" else None,
    rule=ordered("confirm", "log", "silent").tighten,
)


def _fewer_confirmations(before: Mapping[str, Action], after: Mapping[str, Action]) -> list[str]:
    names = [name for name, action in after.items() if action != "confirm" and before.get(name) != action]
    return [f"calls of {join_names(names)} will not be confirmed"] if names else []


class ConfirmationConfig(Section, frozen=True, kw_only=True):
    autonomy: Annotated[
        Autonomy,
        ordered("cautious", "standard", "autonomous"),
        Approves(
            "calls that would be confirmed", describe_value("fewer calls will be confirmed", "standard", "autonomous")
        ),
        "Shifts the actions towards more or fewer confirmations.",
    ] = "standard"
    actions: Annotated[
        dict[Name, Action],
        ACTIONS,
        Approves(NAMED, _fewer_confirmations),
        "The action when a matching tool is called, by tool or pattern: `confirm`, `log` or `silent`.",
    ] = {}


def _sandbox_modes(before: str, after: str) -> list[str]:
    if after == "off":
        return ["commands will run without a sandbox"]
    unasked = "commands will run in the sandbox: without asking where auto_approve_sandboxed is true"
    return [unasked] if before == "off" else []


def _other_backend(before: str, after: str) -> list[str]:
    return [f"commands will run in another sandbox ({after})"]


def _reachable_hosts(before: str | Names, after: str | Names) -> list[str]:
    if after == "on":
        return ["commands can reach the network"]
    return list(describe_added("commands can reach {}")(before, after))


def _readable_paths(before: Names, after: Names) -> list[str]:
    exceptions = (name for name in after if name.startswith("!") and _reveals(name, before, after))
    shown = [*names_added(after, before), *(name[1:] for name in exceptions)]
    return [f"commands and file tools can read {join_names(shown)}"] if shown else []


def _reveals(exception: str, before: Names, after: Names) -> bool:
    """Whether an exception is new, or now follows a pattern that it preceded: the last matching pattern wins."""
    if exception not in before:
        return True
    now, then = after[: after.index(exception)], before[: before.index(exception)]
    return any(name in before and name not in then for name in now)


class SandboxConfig(Section, frozen=True, kw_only=True):
    mode: Annotated[
        Literal["auto", "required", "off"],
        ordered("required", "auto", "off"),
        Approves(COMMANDS, _sandbox_modes),
        "`auto` uses a sandbox if one works, otherwise every command needs approval; `required` runs nothing without "
        "a sandbox; `off` uses none.",
    ] = "auto"
    backend: Annotated[
        Name,
        KEEP,
        Approves(COMMANDS, _other_backend),
        "`bubblewrap` or `landlock`; `auto` uses the first that passes its probe.",
    ] = "auto"
    writable: Annotated[
        Names,
        TAKE_OUT,
        Approves(FILES, describe_added("commands and file tools can change {}")),
        "Paths that commands and file tools may change; `$root` is the project.",
    ] = ("$root",)
    read_deny: Annotated[
        Names,
        HIDE,
        Mark.ADDS,
        Approves(FILES, _readable_paths),
        "What commands and file tools cannot read: paths, and `.gitignore` patterns relative to the project root "
        "(`*.bak`, `deploy/`, `!fixture.key`). `$secrets` stands for environment files, private keys and credentials: "
        "file tools need approval for those, commands do not see them. A plain list adds; `{ set = [...] }` replaces.",
    ] = READ_DENY
    network: Annotated[
        Literal["off", "on"] | Names, HOSTS, Approves(COMMANDS, _reachable_hosts), "`off`, `on`, or a list of hosts."
    ] = "off"
    environment: Annotated[
        Names,
        TAKE_OUT,
        Approves(COMMANDS, describe_added("commands get the variables {}")),
        "Environment variables that are passed to commands; `*` matches any characters.",
    ] = ENVIRONMENT
    memory: Annotated[
        Count | None,
        LOWER,
        "Memory limit in bytes: for the private data of each process, or, where control groups are available, for "
        "all processes of a command together, including shared memory.",
    ] = 4 * 1024**3
    processes: Annotated[
        Count | None,
        LOWER,
        "Maximum number of processes of a command; for root only where control groups are available.",
    ] = 512
    file_size: Annotated[
        Count | None,
        LOWER,
        "Maximum size of one written file in bytes; the number of files and their total size are not limited.",
    ] = 4 * 1024**3
    open_files: Annotated[Count | None, LOWER, "Maximum number of open files per process."] = 4096
    cpu_seconds: Annotated[Count | None, LOWER, "Maximum CPU time of a process in seconds."] = None
    undo: Annotated[
        Literal["auto", "overlay", "copy", "off"],
        KEEP,
        "How the file changes of a command are recorded for undo.",
    ] = "auto"
    undo_max_files: Annotated[
        Count, KEEP, "Maximum number of files copied before a command runs. Above it, the command cannot be undone."
    ] = 50_000
    undo_max_bytes: Annotated[
        Count, KEEP, "Maximum number of bytes copied before a command runs. Above it, the command cannot be undone."
    ] = 256 * 1024**2


class OutputConfig(Section, frozen=True, kw_only=True):
    max_lines: Annotated[Count, LOWER, "Maximum lines of an output that the model sees."] = 2000
    max_bytes: Annotated[Count, LOWER, "Maximum bytes of an output that the model sees."] = 51_200
    max_spill: Annotated[
        int, Meta(ge=0, le=2**53), LOWER, "Maximum bytes of a truncated output that are stored, to be read back later."
    ] = 64 * 1024 * 1024
    max_output_bytes: Annotated[Count | None, LOWER, "Hard limit in bytes; none by default."] = None
    max_attachments: Annotated[
        int, Meta(ge=0, le=1000), LOWER, "Maximum number of images, audio and files of one result."
    ] = 32
    max_attachment_bytes: Annotated[
        int, Meta(ge=0, le=2**26), LOWER, "Maximum bytes of the images, audio and files of one result, in total."
    ] = 32 * 1024 * 1024


class LedgerConfig(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, SWITCH_ON, "Whether calls are recorded."] = True
    durability: Annotated[
        Literal["process", "power"],
        ordered("power", "process"),
        "What a written entry survives: a crash of the process, or also a power failure, which is slower.",
    ] = "process"
    keep_days: Annotated[
        Seconds | None,
        KEEP,
        "Days for which finished calls are kept, with their before-images, outputs and attachments. Older ones are "
        "pruned once a day, and by `holdfast ledger prune`.",
    ] = 90.0
    max_blob_bytes: Annotated[
        Count | None, KEEP, "Total size of before-images, long outputs and attachments; the oldest are removed first."
    ] = 2 * 1024**3


class SecretSource(Section, frozen=True, kw_only=True):
    """Where the value of a secret comes from when a tool uses its scope."""

    env: Annotated[Name | None, "The environment variable that contains the secret."] = None
    keyring: Annotated[Name | None, "`service/user` in the system's keyring."] = None
    command: Annotated[Annotated[Names, Meta(min_length=1)] | None, Mark.WHOLE, "A command that prints the secret."] = (
        None
    )
    hosts: Annotated[
        Names, Mark.WHOLE, "Hosts of the pages into which `browser.type` may type it: `host`, `*.host` or `host:port`."
    ] = ()

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.env, self.keyring, self.command)) != 1:
            raise ValueError("give exactly one of env, keyring and command")
        if self.keyring is not None and not all(self.keyring.partition("/")):
            raise ValueError("write a keyring entry as 'service/user'")


class ModelProvider(Section, frozen=True, kw_only=True):
    """One provider: its address, and parameters that override the general ones."""

    api: Annotated[ModelApi | None, USER_ONLY, "The wire format, for a server that holdfast does not know by name."] = (
        None
    )
    base_url: Annotated[Name | None, USER_ONLY, "The address of the server."] = None
    api_key: Annotated[
        SecretSource | None, USER_ONLY, "Where the API key comes from, instead of the usual variable."
    ] = None
    project: Annotated[Name | None, USER_ONLY, "The cloud project."] = None
    location: Annotated[Name | None, USER_ONLY, "The cloud region."] = None
    thinking: Annotated[ThinkingLevel | Budget | Literal[False] | None, FREE, "Overrides `model.thinking`."] = None
    thinking_budget: Annotated[Budget | None, FREE, "Token budget for thinking; 0 disables it."] = None
    reasoning: Annotated[Name | None, FREE, "The reasoning effort sent to OpenAI."] = None
    effort: Annotated[Name | None, FREE, "The effort sent to Anthropic."] = None
    max_tokens: Annotated[Count | Percent | None, FREE, "Overrides `model.max_tokens`."] = None
    temperature: Annotated[Temperature | None, FREE, "Overrides `model.temperature`."] = None
    cache_retention: Annotated[CacheRetention | None, FREE, "Overrides `model.cache_retention`."] = None
    protocol: Annotated[Protocol | None, FREE, "Overrides `model.protocol`."] = None
    vision: Annotated[Vision | None, FREE, "Overrides `model.vision`."] = None


PROVIDERS: Final = per_entry("change parameters", new=lambda provider: tighten_struct(ModelProvider(), provider))


class ModelConfig(Section, frozen=True, kw_only=True):
    name: Annotated[
        Name, KEEP, "`provider:model`, such as `anthropic:claude-opus-4-5`; `operator` is built in and needs no key."
    ] = "operator"
    thinking: Annotated[
        ThinkingLevel | Budget | Literal[False],
        FREE,
        "The thinking level: `minimal`, `low`, `medium`, `high`, `max`, a number of tokens, or `false`.",
    ] = "high"
    max_tokens: Annotated[
        Count | Percent, FREE, "Maximum length of a reply, in tokens or in percent of the model's own maximum."
    ] = "50%"
    temperature: Annotated[
        Temperature | None, FREE, "Sampling temperature; without it the provider's default applies."
    ] = None
    cache_retention: Annotated[
        CacheRetention, FREE, "How long the provider caches the prompt prefix for the next request."
    ] = "short"
    foreign_thinking: Annotated[
        ForeignThinking, FREE, "What happens with thinking that another provider signed: sent as text, or dropped."
    ] = "preserve"
    timeout: Annotated[Seconds, LOWER, "Timeout of one request in seconds."] = 600.0
    connect_timeout: Annotated[Seconds, LOWER, "Timeout for connecting to the provider in seconds."] = 10.0
    retries: Annotated[
        int,
        Meta(ge=0, le=20),
        LOWER,
        "How often a request is retried after a rate limit, an overload or a dropped connection.",
    ] = 4
    context: Annotated[
        Count | None, LOWER, "Context size of a small model in tokens: old tool results are trimmed to fit."
    ] = None
    protocol: Annotated[
        Protocol,
        FREE,
        "How the model calls tools: `native`, `constrained` (the server enforces the form of replies), `text`, or "
        "`auto`, which chooses by the model and its server (see [models](models.md)).",
    ] = "auto"
    vision: Annotated[
        Vision,
        FREE,
        "Whether the model gets images, audio and documents: `true`, `false` (it gets descriptions), or `auto`, which "
        "sends them unless the model is known to read only text or its server rejects them.",
    ] = "auto"
    providers: Annotated[
        dict[Name, ModelProvider],
        PROVIDERS,
        "Parameters of individual providers, which override the general ones, and their addresses.",
    ] = {}


class ChatConfig(Section, frozen=True, kw_only=True):
    autopilot: Annotated[bool, SWITCH_OFF, "Continue after approved calls until your input is needed."] = True
    max_turns: Annotated[Count, LOWER, "Maximum number of consecutive replies without a message from you."] = 100
    cursor_after_result: Annotated[
        Literal["result", "stay", "next"], FREE, "Where the cursor moves after a result is written."
    ] = "result"
    files: Annotated[
        Reach,
        ordered("project", "anywhere"),
        "Where files that a document references or includes may be; never those in `sandbox.read_deny`.",
    ] = "project"


Rail = Annotated[bool, SWITCH_ON]


class GuardrailsConfig(Section, frozen=True, kw_only=True):
    """Help for small models, rule by rule. No rule lets a call do more than without it."""

    enabled: Annotated[Rail, "Whether the rules below apply."] = False
    surfaces: Annotated[Rail, "Offer only the tools that fit the request, where that is certain."] = True
    direct: Annotated[
        Rail, "Run what a message states explicitly (read, list, edit, a question to git) without asking the model."
    ] = True
    evidence: Annotated[Rail, "Search for what a message names, and read the best file, before the model is asked."] = (
        True
    )
    scope: Annotated[Rail, "Limit searches to the folder that a message names."] = True
    simplify_queries: Annotated[Rail, "Search for one word if the model searches for a phrase."] = True
    duplicate_calls: Annotated[Rail, "Refuse to repeat a call whose result is still current."] = True
    edit_repair: Annotated[Rail, "Show the form of an edit, filled in, to a model that has to write or repair one."] = (
        True
    )
    own_answers: Annotated[Rail, "Report failed reads and finished changes without the model."] = True
    rounds: Annotated[Rail, "At most six rounds of calls per message."] = True


class McpOAuth(Section, frozen=True, kw_only=True):
    """OAuth settings of a server. All are optional if the server supports dynamic client registration."""

    client_id: Annotated[Name | None, "Your registered client; without it holdfast registers itself."] = None
    client_secret: Annotated[Name | None, "The client's secret, as `${secret:SCOPE}`."] = None
    client_metadata_url: Annotated[
        Name | None, "The https URL of the client metadata document, for servers that support it."
    ] = None
    scopes: Annotated[Names, Mark.WHOLE, "The scopes to request."] = ()
    redirect_port: Annotated[
        int, Meta(ge=0, le=65535), "The local port of the redirect from the browser; 0 uses any free one."
    ] = 0


class McpServer(Section, frozen=True, kw_only=True):
    """One MCP server: a command (stdio) or a URL."""

    command: Annotated[Name | None, IDENTITY, "The program of a stdio server."] = None
    args: Annotated[
        tuple[str, ...],
        Meta(max_length=1000),
        Mark.WHOLE,
        IDENTITY,
        "The program's arguments. Another layer cannot edit this list.",
    ] = ()
    env: Annotated[
        dict[Name, str],
        IDENTITY,
        "Environment variables in addition to `sandbox.environment`; `${secret:SCOPE}` stands for a secret.",
    ] = {}
    cwd: Annotated[
        Name | None,
        IDENTITY,
        "The working directory of the program; `$root` is the project. Without it `/`, outside of the project.",
    ] = None
    url: Annotated[Name | None, IDENTITY, "The URL of an HTTP server, `https://…` or `http://…`."] = None
    headers: Annotated[
        dict[Name, str], IDENTITY, "Headers sent with every request; `${secret:SCOPE}` stands for a secret."
    ] = {}
    transport: Annotated[
        Literal["auto", "http", "sse"],
        IDENTITY,
        "The transport for a URL; `auto` tries streamable HTTP first.",
    ] = "auto"
    oauth: Annotated[
        McpOAuth | None,
        IDENTITY,
        "OAuth settings: `client_id`, `client_secret`, `client_metadata_url`, `scopes`, `redirect_port`; all optional "
        "if the server supports dynamic client registration.",
    ] = None
    protocol: Annotated[
        Literal["auto", "handshake"],
        IDENTITY,
        "`handshake` uses at most protocol version 2025-11-25: some servers claim to support the newer one, but cannot "
        "send elicitations in it. `auto` negotiates.",
    ] = "auto"
    enabled: Annotated[bool, SWITCH_OFF, "Whether the server is used."] = True
    include: Annotated[Names, PATTERNS, "Its tools that are available; `*` matches any characters."] = ("*",)
    exclude: Annotated[Names, ADD, "Its tools that are not available, even if included."] = ()
    trust: Annotated[
        Literal["pinned", "any"],
        ordered("pinned", "any"),
        "`pinned`: a tool whose definition has changed cannot run until you have reviewed the change; `any`: it can.",
    ] = "pinned"
    start_timeout: Annotated[Seconds, LOWER, "Timeout in seconds for starting and listing its tools."] = 30.0
    timeout: Annotated[Seconds, LOWER, "Timeout of one call in seconds."] = 60.0
    network: Annotated[
        Literal["off", "on"] | Names | None,
        OWN_HOSTS,
        "The network access of its program, instead of `sandbox.network`: `off`, `on`, or hosts.",
    ] = None
    writable: Annotated[
        Names,
        TAKE_OUT,
        "Paths that its program may change besides its private `/tmp`; `sandbox.writable` does not apply to it.",
    ] = ()

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("give exactly one of command and url")
        if self.command is None and (self.args or self.env or self.cwd is not None):
            raise ValueError("args, env and cwd are for servers with a command")
        if self.command is None and (self.network is not None or self.writable):
            raise ValueError("network and writable are for servers with a command")
        if self.url is None and (self.headers or self.oauth is not None or self.transport != "auto"):
            raise ValueError("headers, oauth and transport are for servers with a url")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("a url must start with https:// or http://")


SERVERS: Final = per_entry("limit those you have", new=lambda server: None)


def _changed_servers(before: Mapping[str, McpServer], after: Mapping[str, McpServer]) -> list[str]:
    names = [name for name, server in after.items() if before.get(name) != server]
    return [f"the tools of the MCP server {name} can be called with its new settings" for name in names]


class McpConfig(Section, frozen=True, kw_only=True):
    servers: Annotated[
        dict[ServerName, McpServer],
        SERVERS,
        Approves(AVAILABLE, _changed_servers),
        "MCP servers by name, see below; their tools are called `mcp:name:tool`.",
    ] = {}
    client_approves: Annotated[
        bool,
        SWITCH_OFF,
        Approves("nothing by itself: it defines who can answer", describe_value("MCP clients can approve calls", True)),
        "Whether an MCP client may ask its user for approval; if not, use another interface.",
    ] = True
    wait: Annotated[
        float,
        Meta(ge=0, le=31_536_000),
        LOWER,
        "Seconds that a call of an MCP client without elicitation waits for an answer from another interface, such as "
        "`holdfast approve`.",
    ] = 45.0


def _first_set(base: str | None, wanted: str | None) -> str | None:
    return wanted if base is None else base


ENTER: Final = TrustRule("set it, unless it is set already", _first_set)
"""Entering an agent or a skill removes tools; leaving one for another would not."""


def _leaving(kind: str) -> Approves:
    def describe(before: str | None, after: str | None) -> list[str]:
        left = before is not None and after != before
        return [f"tools that the {kind} {before} does not have can be called"] if left else []

    return Approves(AVAILABLE, describe)


class Config(Section, frozen=True, kw_only=True):
    agent: Annotated[
        Name | None,
        ENTER,
        _leaving("agent"),
        "The agent that makes the calls: one of `tools.agents`, whose tools it is limited to.",
    ] = None
    skill: Annotated[
        Name | None,
        ENTER,
        _leaving("skill"),
        "The skill in whose context calls are made: only the tools that it names can be called, and a conversation"
        " starts with its instructions.",
    ] = None
    tools: Annotated[ToolsConfig, "Which tools exist, and how they run."] = ToolsConfig()
    approval: Annotated[ApprovalConfig, "Which calls run without asking."] = ApprovalConfig()
    pending: Annotated[PendingConfig, "Calls that wait for an answer."] = PendingConfig()
    notify: Annotated[NotifyConfig, "How you are notified of pending calls."] = NotifyConfig()
    confirmation: Annotated[ConfirmationConfig, "Which calls are confirmed or logged before they run."] = (
        ConfirmationConfig()
    )
    sandbox: Annotated[SandboxConfig, "What commands can read, change and reach."] = SandboxConfig()
    network: Annotated[NetworkConfig, "What tools can reach over the network."] = NetworkConfig()
    web: Annotated[WebConfig, "How web tools behave towards servers, and where they search."] = WebConfig()
    browser: Annotated[BrowserConfig, "The browser of `browser.*`."] = BrowserConfig()
    output: Annotated[OutputConfig, "How much of an output the model sees."] = OutputConfig()
    ledger: Annotated[LedgerConfig, "The record of every call."] = LedgerConfig()
    memory: Annotated[MemoryConfig, "What agents remember across conversations."] = MemoryConfig()
    media: Annotated[MediaConfig, "Which models look at images and transcribe speech."] = MediaConfig()
    minio: Annotated[MinioConfig, "The S3 server of `minio.*`."] = MinioConfig()
    google: Annotated[GoogleConfig, "Your Google account: mail, calendar, documents, Drive and tasks."] = GoogleConfig()
    k8s: Annotated[K8sConfig, "Kubernetes: the clusters that `k8s.*` reads."] = K8sConfig()
    model: Annotated[ModelConfig, "The model and its parameters."] = ModelConfig()
    chat: Annotated[ChatConfig, "How chat documents run."] = ChatConfig()
    guardrails: Annotated[GuardrailsConfig, "Help for small models, rule by rule."] = GuardrailsConfig()
    mcp: Annotated[McpConfig, "MCP servers that provide tools, and MCP clients that use holdfast's."] = McpConfig()
    secrets: Annotated[
        dict[Name, SecretSource],
        USER_ONLY,
        Mark.WHOLE,
        Approves("calls of tools that need its scopes", describe_added("tools that need the secret {} can be called")),
        "Where a secret comes from when a tool uses its scope, by scope: `env`, `keyring` (`service/user`) or "
        "`command`.",
    ] = {}
    protected: Annotated[
        Names,
        ADD,
        "Patterns of paths, in addition to the built-in ones, that always need approval. Layers only add to it.",
    ] = ()

    def __post_init__(self) -> None:
        for name, option in options(type(self)).items():
            value: object = getattr(self, name)
            if is_section(option.kind) and not isinstance(value, option.kind):
                wanted, given = option.kind.__name__, type(value).__name__
                raise ConfigError(
                    f"Config({name}=...) takes {wanted}(...), not {given}. "
                    f"For plain tables write Config.from_dict({{{name!r}: {{...}}}})."
                )

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Config":
        """Return the configuration of a user-level file with these tables, such as `{"tools": {"deny": [...]}}`."""
        if not isinstance(cast(object, given), Mapping):
            raise ConfigError(f"Config.from_dict takes a dict of tables, not {type(given).__name__}.")
        table = plain_table(given, "Config.from_dict")
        return merge_layer(cls(), table, name="Config.from_dict", folder=Path.cwd(), user_level=True).config


def effective_options(config: Config) -> dict[str, Any]:
    """Return the value of every option that a file may set, by key."""
    found: dict[str, Any] = {}
    for section in options(Config).values():
        value = getattr(config, section.name)
        if is_section(section.kind):
            found |= {f"{section.name}.{name}": getattr(value, name) for name in options(section.kind)}
        else:
            found[section.name] = value
    return found
