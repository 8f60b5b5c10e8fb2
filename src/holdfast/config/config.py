"""The one typed configuration. An option is one field: its type, what it means, what an untrusted layer may do to it.

Where a value comes from is `load`; the JSON Schema, `docs/config.md` and the trust rules are made from these fields.
"""
# fmt: off - one option per paragraph: type, rule, documentation, default
# Annotations are values here: as text, msgspec evaluates each of them again whenever it looks at a struct.

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

from msgspec import Meta, Struct
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
    Mark,
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
from holdfast.contract.enums import Profile, Risk
from holdfast.contract.errors import ConfigError
from holdfast.contract.widening import WideningKind

SHELL_READONLY: Final = "$shell-readonly"
"""Approves no tool, but commands of the shell that only read: `rules.shell` knows which."""

Caps = Literal["standard", "small"]
Action = Literal["confirm", "log", "silent"]
Autonomy = Literal["cautious", "standard", "autonomous"]
ThinkingLevel = Literal["minimal", "low", "medium", "high", "max"]
CacheRetention = Literal["none", "short", "long"]
ForeignThinking = Literal["preserve", "drop"]
Reach = Literal["project", "anywhere"]
Protocol = Literal["auto", "native", "text"]
ModelApi = Literal["anthropic", "openai", "openai-chat", "google", "vertex"]

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Names = Annotated[tuple[Name, ...], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
PENDING_TTL: Final = 7 * 86_400.0
"""Seconds a call waits for an answer by default, unless it belongs to a document."""
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
REACH: Final = "calls that use files or run commands"
UNCOVERED: Final = "every call that no rule covers"


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


def _wider_profile(before: Profile, after: Profile) -> list[str]:
    order = get_args(Profile)
    return [f"the tools of the profile {after} can be called"] if order.index(after) > order.index(before) else []


def _changed(words: str) -> Callable[[Table, Table], list[str]]:
    """A sentence about the entries of a table that are new or other ones."""

    def says(before: Table, after: Table) -> list[str]:
        names = [name for name in after if name not in before or before[name] != after[name]]
        return [words.format(join_names(names))] if names else []

    return says


class PolicyLayer(Section, frozen=True, kw_only=True):
    """Which tools are left for an agent, a provider or an untrusted file; it is intersected with the rest."""

    profile: Annotated[Profile | None, KEEP, "The set of tools to begin with."] = None
    allow: Annotated[Names, KEEP, "Tools added to the profile; never more than the caller has without this."] = ()
    deny: Annotated[Names, ADD, "Tools taken away."] = ()
    caps: Annotated[Caps | None, ordered("small"), "How much reading tools show at once."] = None
    source: Annotated[str, KEEP, Mark.COMPUTED, "The file that narrows, for messages."] = ""


LAYERS: Final = per_entry("add names, and denials to known ones", new=lambda layer: layer)
"""A new layer can only narrow."""


class ToolsConfig(Section, frozen=True, kw_only=True):
    profile: Annotated[Profile, NARROWED, Approves(AVAILABLE, _wider_profile), "The set of tools to begin with."] = (
        "coding"
    )
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
        "Tools, patterns and groups taken away, whatever else allows them.",
    ] = ()
    caps: Annotated[
        Caps,
        ordered("small", "standard"),
        "How much reading tools show at once: `small` (200 lines of a file) is for models with little room; also for "
        "single `agents` and `providers`.",
    ] = "standard"
    default_timeout: Annotated[
        Seconds, LOWER, "Seconds a call may take when neither the call nor the tool says otherwise."
    ] = 30.0
    strict_check: Annotated[
        Literal["warn", "error"],
        ordered("error", "warn"),
        "What a tool gets that asks for `strict` and whose schema does not meet its rules; `error` refuses it.",
    ] = "warn"
    max_concurrent: Annotated[Count, LOWER, "How many calls run at the same time."] = 8
    search_threshold: Annotated[
        Count, LOWER, "With more tools than this the model gets a search tool instead of all of them."
    ] = 100
    max_depth: Annotated[int, Meta(ge=0, le=1000), LOWER, "How deep calls may nest; 0 forbids calls made by tools."] = 8
    modules: Annotated[
        Names,
        USER_ONLY,
        Approves(AVAILABLE, describe_added("the tools of {} can be called")),
        "Import paths of modules with tools.",
    ] = ()
    entry_points: Annotated[
        bool,
        SWITCH_OFF,
        Approves(AVAILABLE, describe_value("the tools of installed packages can be called", True)),
        "Whether installed packages may bring tools.",
    ] = True
    agents: Annotated[
        dict[str, PolicyLayer],
        LAYERS,
        Approves(AVAILABLE, _changed("the tools of the agents {} change")),
        "Narrower sets for agents, by name: `profile`, `allow`, `deny`, `caps`.",
    ] = {}
    providers: Annotated[
        dict[str, PolicyLayer],
        LAYERS,
        Approves(AVAILABLE, _changed("the tools of models of {} change")),
        "Narrower sets for model providers, by name.",
    ] = {}
    skills: Annotated[
        dict[str, Name],
        KEEP,
        Approves(AVAILABLE, _changed("the tools of the skills {} change")),
        "Folders of skills by name, relative to the file that names them. Each holds a `manifest.json`; the skill has"
        " tools once you trusted that (`holdfast trust FOLDER/manifest.json`), until it changes.",
    ] = {}
    config: Annotated[
        dict[str, dict[str, Any]],
        KEEP,
        Approves(NAMED, _changed("other settings apply to {}")),
        "Settings of single tools, by tool name or alias.",
    ] = {}
    narrow: Annotated[
        tuple[PolicyLayer, ...],
        KEEP,
        Mark.COMPUTED,
        "Layers of untrusted files: a tool is left only if each of them leaves it too.",
    ] = ()

    def settings_of(self, names: Sequence[str]) -> Table | None:
        """The settings of a tool, under any of its names; those under the first of them win."""
        found = [self.config[name] for name in reversed(names) if name in self.config]
        return {key: value for settings in found for key, value in settings.items()} if found else None


class Preset(Section, frozen=True, kw_only=True):
    approve: Annotated[Names, KEEP, "What the preset approves."] = ()
    deny: Annotated[Names, ADD, "What the preset denies; a denial wins over every approval."] = ()


PRESETS: Final = per_entry("add denials", new=lambda preset: tighten_struct(Preset(), preset) if preset.deny else None)


def _preset_changes(before: Mapping[str, Preset], after: Mapping[str, Preset]) -> list[str]:
    said: list[str] = []
    for name, preset in after.items():
        old = before.get(name, Preset())
        said += describe_added(f"{{}} will run without asking where {name} is used")(old.approve, preset.approve)
        said += describe_added(f"{name} no longer denies {{}}", removed=True)(old.deny, preset.deny)
    return said


class CommandRule(Section, frozen=True, kw_only=True):
    """What holds for shell commands that begin with these words."""

    rule: Annotated[Name, "The words a command begins with; `*` at the end stands for any further operands."]
    verdict: Annotated[
        Literal["approve", "ask", "deny"],
        Synonyms({"allow": "approve", "confirm": "ask"}),
        "What holds for such commands, also when they are hidden in others; `allow` and `confirm` are understood.",
    ]
    options: Annotated[Names, Mark.WHOLE, "Options an approving rule lets through; `--name=` with any value."] = ()
    operands: Annotated[
        Literal["known", "files"],
        "What `*` stands for: operands of a program known to only read (`known`), or files and folders of the project"
        " that are there, whatever the program does with them (`files`).",
    ] = "known"
    match: Annotated[
        Names, Mark.WHOLE, "Commands the rule must decide about; checked when the configuration is read."
    ] = ()
    not_match: Annotated[Names, Mark.WHOLE, "Commands it must not decide about."] = ()
    network: Annotated[
        Literal["on"] | Names,
        Mark.WHOLE,
        "What such a command reaches beyond `sandbox.network`: hosts, or `on` for all.",
    ] = ()
    read: Annotated[Names, Mark.WHOLE, "Paths it can read although `sandbox.read_deny` or the sandbox hides them."] = ()
    write: Annotated[Names, Mark.WHOLE, "Folders it can change beyond `sandbox.writable`."] = ()


def _with_commands(base: tuple[CommandRule, ...], wanted: tuple[CommandRule, ...]) -> tuple[CommandRule, ...]:
    """More to ask about and to deny; nothing more to approve or to reach."""
    strict = (replace(rule, network=(), read=(), write=()) for rule in wanted if rule.verdict != "approve")
    return (*base, *(rule for rule in dict.fromkeys(strict) if not _is_in(rule, base)))


def _approved_commands(before: tuple[CommandRule, ...], after: tuple[CommandRule, ...]) -> list[str]:
    new = [rule for rule in after if rule not in before]
    approved = [f"`{rule.rule}`" for rule in new if rule.verdict == "approve"]
    said = [f"commands that begin with {join_names(approved)} will run without asking"] if approved else []
    for rule in new:
        hosts = ["the network"] if rule.network == "on" else list(rule.network)
        does = (("reach", hosts), ("read", rule.read), ("change", rule.write))
        said += [f"commands that begin with `{rule.rule}` can {verb} {join_names(what)}" for verb, what in does if what]
    return said


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


def _is_in(rule: CommandRule, rules: tuple[CommandRule, ...]) -> bool:
    return any(replace(other, network=(), read=(), write=()) == rule for other in rules)


MORE_COMMANDS: Final = TrustRule("add rules that ask or deny, and reach no more", _with_commands)


class ApprovalConfig(Section, frozen=True, kw_only=True):
    auto_approve: Annotated[
        Names | Name,
        NARROWED,
        Approves(NAMED, _approved_tools),
        "What runs without asking: tool names, patterns, `$presets` and module paths; or one function, "
        '`"pkg.mod:func"`. Functions and modules are taken only from user-level config.',
    ] = ("$default",)
    excluded: Annotated[
        Names,
        ADD,
        Mark.COMPUTED,
        Approves(NAMED, describe_added("presets of auto_approve approve {} again", removed=True)),
        "Names removed from `auto_approve` that are not literally in it: filtered where presets are expanded.",
    ] = ()
    removed: Annotated[
        Names,
        ADD,
        Mark.COMPUTED,
        "Names removed from `auto_approve` that a later list does not put in again: its presets may approve them, the "
        "sandbox, rules about commands and the absence of effects do not.",
    ] = ()
    importable: Annotated[
        Names,
        KEEP,
        Mark.COMPUTED,
        "What user-level config put into `auto_approve`: only these items may be taken for import paths.",
    ] = ()
    auto_approve_sandboxed: Annotated[
        bool,
        SWITCH_OFF,
        Approves(SANDBOXED, describe_value("shell commands in the sandbox will run without asking", True)),
        "`true` runs shell commands without asking where the sandbox holds them: it is on, and passed its escape tests "
        "here. No other option implies it.",
    ] = False
    require_approval: Annotated[
        bool,
        SWITCH_ON,
        Approves(UNCOVERED, describe_value("every call that no rule covers will run without asking", False)),
        "`false` approves whatever nothing else decides about.",
    ] = True
    presets: Annotated[
        dict[Name, Preset],
        PRESETS,
        Approves(NAMED, _preset_changes),
        "Your own presets, by a name that begins with `$`: `approve`, `deny`.",
    ] = {}
    commands: Annotated[
        tuple[CommandRule, ...],
        Meta(max_length=1000),
        MORE_COMMANDS,
        Approves("commands that begin with the words of a rule", _approved_commands),
        "Rules about shell commands, see below. Every layer adds, none removes; the strictest wins.",
    ] = ()
    max_risk: Annotated[
        Risk | None,
        ordered(*Risk),
        Approves("calls above the risk limit", _higher_risk),
        "The highest risk a list may approve.",
    ] = None
    on_error: Annotated[
        Literal["skip", "ask"],
        ordered("ask", "skip"),
        Approves(
            "calls that are asked about because a policy failed",
            describe_value("a policy that fails is skipped", "skip"),
        ),
        "What a resolver that fails means: skip it, or ask whatever the others say.",
    ] = "skip"
    narrow: Annotated[
        tuple[Names, ...],
        KEEP,
        Mark.COMPUTED,
        "Lists of untrusted files: nothing is approved by `auto_approve` unless each of them approves it too.",
    ] = ()
    widen: Annotated[
        tuple[WideningKind, ...],
        TAKE_OUT,
        Approves(
            "nothing by itself: it is what your answer or your rule can add", describe_added("an approval can give {}")
        ),
        "What an approval or a command rule may add to the sandbox for one call: `hosts`, the whole `network`, paths "
        "to `read` and to `write`, and running `outside` the sandbox, which only an answer can.",
    ] = get_args(WideningKind)
    expires: Annotated[
        Seconds, LOWER, "Seconds after which an approval that was not used is void: the call ends as `expired`."
    ] = 86_400.0


class PendingConfig(Section, frozen=True, kw_only=True):
    ttl: Annotated[
        Seconds | None,
        lower_limit(unset=PENDING_TTL),
        "Seconds a call waits for an answer before it ends as `expired`; 7 days unless given, and for calls of a "
        "document no end.",
    ] = None


ACTIONS: Final = per_entry(
    "ask for confirmation",
    # Anything less for a new pattern could replace what a wider pattern says.
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
        "Shifts the actions towards more or fewer questions.",
    ] = "standard"
    actions: Annotated[
        dict[Name, Action],
        ACTIONS,
        Approves(NAMED, _fewer_confirmations),
        "What happens when a matching tool is called, by tool or pattern: `confirm`, `log` or `silent`.",
    ] = {}


def _sandbox_modes(before: str, after: str) -> list[str]:
    if after == "off":
        return ["commands will run without a sandbox"]
    unasked = "commands will run in the sandbox: without asking where auto_approve_sandboxed is true"
    return [unasked] if before == "off" else []


def _other_backend(before: str, after: str) -> list[str]:
    return [f"commands will run in another sandbox ({after})"]


def _reached(before: str | Names, after: str | Names) -> list[str]:
    if after == "on":
        return ["commands can reach the network"]
    return list(describe_added("commands can reach {}")(before, after))


def _shown_paths(before: Names, after: Names) -> list[str]:
    exceptions = (name for name in after if name.startswith("!") and _shows(name, before, after))
    shown = [*names_added(after, before), *(name[1:] for name in exceptions)]
    return [f"commands and file tools can read {join_names(shown)}"] if shown else []


def _shows(exception: str, before: Names, after: Names) -> bool:
    """Whether an exception is new, or comes after a pattern that it came before: the last that matches counts."""
    if exception not in before:
        return True
    now, then = after[: after.index(exception)], before[: before.index(exception)]
    return any(name in before and name not in then for name in now)


class SandboxConfig(Section, frozen=True, kw_only=True):
    mode: Annotated[
        Literal["auto", "required", "off"],
        ordered("required", "auto", "off"),
        Approves(COMMANDS, _sandbox_modes),
        "`auto` uses a sandbox where one works and asks about every command where none does, `required` runs nothing "
        "without one, `off` uses none.",
    ] = "auto"
    backend: Annotated[
        Name,
        KEEP,
        Approves(COMMANDS, _other_backend),
        "`bubblewrap` or `landlock`; `auto` takes the first that held its probe.",
    ] = "auto"
    writable: Annotated[
        Names,
        TAKE_OUT,
        Approves(REACH, describe_added("commands and file tools can change {}")),
        "Paths commands and file tools may change; `$root` is the project.",
    ] = ("$root",)
    read_deny: Annotated[
        Names,
        HIDE,
        Mark.ADDS,
        Approves(REACH, _shown_paths),
        "What commands and file tools cannot read: paths, and patterns as in a `.gitignore` from the project root "
        "(`*.bak`, `deploy/`, `!fixture.key`). `$secrets` stands for environment files, private keys and credentials: "
        "file tools ask about those, commands do not see them. A plain list adds; `{ set = [...] }` replaces.",
    ] = READ_DENY
    network: Annotated[
        Literal["off", "on"] | Names, HOSTS, Approves(COMMANDS, _reached), "`off`, `on`, or a list of hosts."
    ] = "off"
    environment: Annotated[
        Names,
        TAKE_OUT,
        Approves(COMMANDS, describe_added("commands get the variables {}")),
        "Variables that commands get from their surroundings; `*` stands for any letters.",
    ] = ENVIRONMENT
    memory: Annotated[
        Count | None,
        LOWER,
        "Bytes of data a process may hold, without what it shares; where control groups can be used, all of a "
        "command's processes together, with what they share.",
    ] = 4 * 1024**3
    processes: Annotated[
        Count | None,
        LOWER,
        "How many processes a command may have; root's are limited only where control groups can be used.",
    ] = 512
    file_size: Annotated[
        Count | None,
        LOWER,
        "Bytes the largest file it writes may have; the number of files and their total size have no limit.",
    ] = 4 * 1024**3
    open_files: Annotated[Count | None, LOWER, "How many files a process may hold open."] = 4096
    cpu_seconds: Annotated[Count | None, LOWER, "Seconds of processor time a process may use."] = None
    undo: Annotated[
        Literal["auto", "overlay", "copy", "off"],
        KEEP,
        "How what a command changes is recorded, so that it can be undone.",
    ] = "auto"
    undo_max_files: Annotated[
        Count, KEEP, "More files than this are not copied beforehand: the command cannot be undone then."
    ] = 50_000
    undo_max_bytes: Annotated[
        Count, KEEP, "More bytes than this are not copied beforehand: the command cannot be undone then."
    ] = 256 * 1024**2


class OutputConfig(Section, frozen=True, kw_only=True):
    max_lines: Annotated[Count, LOWER, "Lines of an output that the model sees."] = 2000
    max_bytes: Annotated[Count, LOWER, "Bytes of it."] = 51_200
    max_spill: Annotated[int, Meta(ge=0, le=2**53), LOWER, "Bytes of a cut output that are kept to be read back."] = (
        64 * 1024 * 1024
    )
    max_output_bytes: Annotated[Count | None, LOWER, "A harder limit in bytes; without it there is none."] = None


class LedgerConfig(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, SWITCH_ON, "Whether calls are recorded."] = True
    durability: Annotated[
        Literal["process", "power"],
        ordered("power", "process"),
        "What the record survives: the end of the process, or also the loss of power, which is slower.",
    ] = "process"
    keep_days: Annotated[
        Seconds | None,
        KEEP,
        "How many days finished calls are kept, with their before-images and spills; older ones go once a day, and "
        "with `holdfast ledger prune`.",
    ] = 90.0
    max_blob_bytes: Annotated[
        Count | None, KEEP, "How much is kept of before-images and long outputs; the oldest go first."
    ] = 2 * 1024**3


class SecretSource(Section, frozen=True, kw_only=True):
    """Where the value of a secret scope is fetched from when a tool uses it."""

    env: Annotated[Name | None, "The environment variable that holds it."] = None
    keyring: Annotated[Name | None, "`service/user` in the system's keyring."] = None
    command: Annotated[Annotated[Names, Meta(min_length=1)] | None, Mark.WHOLE, "A command that prints it."] = None

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.env, self.keyring, self.command)) != 1:
            raise ValueError("give exactly one of env, keyring and command")
        if self.keyring is not None and not all(self.keyring.partition("/")):
            raise ValueError("write a keyring entry as 'service/user'")


class ModelProvider(Section, frozen=True, kw_only=True):
    """One provider: where it is reached, and parameters that win over the general ones."""

    api: Annotated[ModelApi | None, USER_ONLY, "The wire format of a server holdfast does not know by name."] = None
    base_url: Annotated[Name | None, USER_ONLY, "Where the server is."] = None
    api_key: Annotated[SecretSource | None, USER_ONLY, "Where the key comes from, instead of the usual variable."] = (
        None
    )
    project: Annotated[Name | None, USER_ONLY, "The cloud project."] = None
    location: Annotated[Name | None, USER_ONLY, "The cloud region."] = None
    thinking: Annotated[ThinkingLevel | Budget | Literal[False] | None, FREE, "Wins over `model.thinking`."] = None
    thinking_budget: Annotated[Budget | None, FREE, "Tokens to think with; 0 switches it off."] = None
    reasoning: Annotated[Name | None, FREE, "The effort OpenAI is asked for."] = None
    effort: Annotated[Name | None, FREE, "The effort Anthropic is asked for."] = None
    max_tokens: Annotated[Count | Percent | None, FREE, "Wins over `model.max_tokens`."] = None
    temperature: Annotated[Temperature | None, FREE, "Wins over `model.temperature`."] = None
    cache_retention: Annotated[CacheRetention | None, FREE, "Wins over `model.cache_retention`."] = None
    protocol: Annotated[Protocol | None, FREE, "Wins over `model.protocol`."] = None


PROVIDERS: Final = per_entry("change parameters", new=lambda provider: tighten_struct(ModelProvider(), provider))


class ModelConfig(Section, frozen=True, kw_only=True):
    name: Annotated[
        Name, KEEP, "`provider:model`, such as `anthropic:claude-opus-4-5`; `operator` is built in and needs no key."
    ] = "operator"
    thinking: Annotated[
        ThinkingLevel | Budget | Literal[False],
        FREE,
        "How much the model thinks: `minimal`, `low`, `medium`, `high`, `max`, a number of tokens, or `false`.",
    ] = "high"
    max_tokens: Annotated[
        Count | Percent, FREE, "The longest reply, in tokens or in per cent of what the model can write."
    ] = "50%"
    temperature: Annotated[
        Temperature | None, FREE, "How freely the model chooses its words; without it the provider decides."
    ] = None
    cache_retention: Annotated[
        CacheRetention, FREE, "How long the provider keeps the beginning of a conversation for the next request."
    ] = "short"
    foreign_thinking: Annotated[
        ForeignThinking, FREE, "What becomes of thinking another provider signed: sent as text, or dropped."
    ] = "preserve"
    timeout: Annotated[Seconds, LOWER, "Seconds one request may take."] = 600.0
    connect_timeout: Annotated[Seconds, LOWER, "Seconds to reach the provider."] = 10.0
    retries: Annotated[
        int,
        Meta(ge=0, le=20),
        LOWER,
        "How often a request is made again after a limit, an overload or a dropped connection.",
    ] = 4
    context: Annotated[
        Count | None, LOWER, "Tokens a small model has room for: old tool results are trimmed to fit."
    ] = None
    protocol: Annotated[
        Protocol,
        FREE,
        "How the model asks for tools: `native`, `text` (see [models](models.md)), or `auto`, which takes text for "
        "models without tool calling.",
    ] = "auto"
    providers: Annotated[
        dict[Name, ModelProvider],
        PROVIDERS,
        "Parameters of single providers, which win over the general ones, and where they are reached.",
    ] = {}


class ChatConfig(Section, frozen=True, kw_only=True):
    autopilot: Annotated[bool, SWITCH_OFF, "Go on after approved calls until a person is needed."] = True
    max_turns: Annotated[Count, LOWER, "Replies in a row without a message of yours."] = 100
    cursor_after_result: Annotated[
        Literal["result", "stay", "next"], FREE, "Where the cursor goes when a result has been written."
    ] = "result"
    files: Annotated[
        Reach,
        ordered("project", "anywhere"),
        "Where the files may be that a document refers to or includes; never those in `sandbox.read_deny`.",
    ] = "project"


Rail = Annotated[bool, SWITCH_ON]


class GuardrailsConfig(Section, frozen=True, kw_only=True):
    """Help for small models, rule by rule. None of them lets a call do more than it could without."""

    enabled: Annotated[Rail, "Whether small models get the help below."] = False
    surfaces: Annotated[Rail, "Show only the tools that fit what a message asks for."] = True
    direct: Annotated[Rail, "Do what a message names outright (read, list, edit) without asking the model."] = True
    scope: Annotated[Rail, "Keep searches in the folder a message names."] = True
    simplify_queries: Annotated[Rail, "Search for one word where a model asks for a phrase."] = True
    weak_queries: Annotated[Rail, "Send back searches that would find everything."] = True
    search_budget: Annotated[Rail, "One search for each message, and a second only if the first found nothing."] = True
    list_before_search: Annotated[
        Rail, "Search before folders are listed, where something is to be found in the code."
    ] = True
    read_budget: Annotated[Rail, "At most three files for each message."] = True
    duplicate_calls: Annotated[Rail, "Do not repeat a call that has just succeeded."] = True
    evidence: Annotated[Rail, "Answer questions about the code only after a file that shows the answer was read."] = (
        True
    )
    citations: Annotated[Rail, "Let an answer name only files that were read."] = True
    own_answers: Annotated[Rail, "Say without the model what came of a failed read and of a change."] = True
    edit_repair: Annotated[Rail, "Tell a model that failed to mend an edit how one is written."] = True
    rounds: Annotated[Rail, "At most ten rounds of calls for each message."] = True


class McpOAuth(Section, frozen=True, kw_only=True):
    """How a person logs in to a server. All of it can be left out where the server registers clients by itself."""

    client_id: Annotated[Name | None, "The client you registered there; without it holdfast registers itself."] = None
    client_secret: Annotated[Name | None, "Its secret, as `${secret:SCOPE}`."] = None
    client_metadata_url: Annotated[
        Name | None, "An https address that describes the client, for servers that know such addresses."
    ] = None
    scopes: Annotated[Names, Mark.WHOLE, "The scopes to ask for."] = ()
    redirect_port: Annotated[
        int, Meta(ge=0, le=65535), "The local port the browser comes back to; 0 takes any free one."
    ] = 0


class McpServer(Section, frozen=True, kw_only=True):
    """One MCP server: a command that speaks on its standard streams, or an address."""

    command: Annotated[Name | None, IDENTITY, "The program of a server that speaks on its standard streams."] = None
    args: Annotated[
        tuple[str, ...],
        Meta(max_length=1000),
        Mark.WHOLE,
        IDENTITY,
        "The program's arguments, as one value: a list that cannot be edited by another layer.",
    ] = ()
    env: Annotated[
        dict[Name, str],
        IDENTITY,
        "Variables it gets beside what `sandbox.environment` lets through; `${secret:SCOPE}` stands for a secret.",
    ] = {}
    cwd: Annotated[
        Name | None,
        IDENTITY,
        "The folder the program runs in, `$root` for the project; without it `/`, where nothing of it is.",
    ] = None
    url: Annotated[
        Name | None, IDENTITY, "The address of a server that is reached over HTTP, `https://…` or `http://…`."
    ] = None
    headers: Annotated[
        dict[Name, str], IDENTITY, "Headers sent with every request; `${secret:SCOPE}` stands for a secret."
    ] = {}
    transport: Annotated[
        Literal["auto", "http", "sse"],
        IDENTITY,
        "How it is spoken to at its address; `auto` tries streamable HTTP first.",
    ] = "auto"
    oauth: Annotated[
        McpOAuth | None,
        IDENTITY,
        "How you log in to it: `client_id`, `client_secret`, `client_metadata_url`, `scopes`, `redirect_port`; all "
        "can be left out where the server registers clients by itself.",
    ] = None
    protocol: Annotated[
        Literal["auto", "handshake"],
        IDENTITY,
        "`handshake` speaks no newer protocol than 2025-11-25: some servers say they know the newer one and cannot "
        "ask you anything in it. `auto` finds out.",
    ] = "auto"
    enabled: Annotated[bool, SWITCH_OFF, "Whether it is used."] = True
    include: Annotated[Names, PATTERNS, "Which of its tools there are; `*` stands for any letters."] = ("*",)
    exclude: Annotated[Names, ADD, "Which of them are left out all the same."] = ()
    trust: Annotated[
        Literal["pinned", "any"],
        ordered("pinned", "any"),
        "`pinned`: a tool whose definition has changed is held until you have seen the difference; `any`: it is not.",
    ] = "pinned"
    start_timeout: Annotated[Seconds, LOWER, "Seconds until it has said which tools it has."] = 30.0
    timeout: Annotated[Seconds, LOWER, "Seconds one call may take."] = 60.0
    network: Annotated[
        Literal["off", "on"] | Names | None,
        OWN_HOSTS,
        "What its program can reach, instead of `sandbox.network`: `off`, `on`, or hosts.",
    ] = None
    writable: Annotated[
        Names, TAKE_OUT, "Paths its program may change beside its private `/tmp`, whatever `sandbox.writable` says."
    ] = ()

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("give exactly one of command and url")
        if self.command is None and (self.args or self.env or self.cwd is not None):
            raise ValueError("args, env and cwd are for servers with a command")
        if self.command is None and (self.network is not None or self.writable):
            raise ValueError("network and writable are for servers with a command, which run here")
        if self.url is None and (self.headers or self.oauth is not None or self.transport != "auto"):
            raise ValueError("headers, oauth and transport are for servers with a url")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("a url begins with https:// or http://")


SERVERS: Final = per_entry("limit those you have", new=lambda server: None)


def _changed_servers(before: Mapping[str, McpServer], after: Mapping[str, McpServer]) -> list[str]:
    names = [name for name, server in after.items() if before.get(name) != server]
    return [f"the tools of the MCP server {name} can be called, as it is set now" for name in names]


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
        Approves("nothing by itself: it is who can answer", describe_value("MCP clients can approve calls", True)),
        "Whether an MCP client may ask its person for approval; if not, another interface must.",
    ] = True
    wait: Annotated[
        float,
        Meta(ge=0, le=31_536_000),
        LOWER,
        "Seconds a call of an MCP client that cannot ask its person waits for an answer from elsewhere, such as "
        "`holdfast approve`.",
    ] = 45.0


class Config(Section, frozen=True, kw_only=True):
    tools: Annotated[ToolsConfig, "Which tools exist, and how they run."] = ToolsConfig()
    approval: Annotated[ApprovalConfig, "Which calls run without asking a person."] = ApprovalConfig()
    pending: Annotated[PendingConfig, "Calls that wait for a person."] = PendingConfig()
    confirmation: Annotated[ConfirmationConfig, "Who is told, or asked, when a call is about to run."] = (
        ConfirmationConfig()
    )
    sandbox: Annotated[SandboxConfig, "What commands can reach."] = SandboxConfig()
    output: Annotated[OutputConfig, "How much of an output the model sees."] = OutputConfig()
    ledger: Annotated[LedgerConfig, "The record of every call."] = LedgerConfig()
    model: Annotated[ModelConfig, "Which model answers, and how it is asked."] = ModelConfig()
    chat: Annotated[ChatConfig, "How documents are driven."] = ChatConfig()
    guardrails: Annotated[GuardrailsConfig, "Help for small models, rule by rule."] = GuardrailsConfig()
    mcp: Annotated[McpConfig, "Servers that bring tools over MCP, and clients that use yours."] = McpConfig()
    secrets: Annotated[
        dict[Name, SecretSource],
        USER_ONLY,
        Mark.WHOLE,
        Approves("calls of tools that need its scopes", describe_added("tools that need the secret {} can be called")),
        "Where a secret scope gets its value when a tool uses it, by scope: `env`, `keyring` (`service/user`) or "
        "`command`.",
    ] = {}
    protected: Annotated[
        Names,
        ADD,
        "Patterns of paths, beyond the built-in ones, that are always asked about. Every layer adds, none removes.",
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
        """What a file of your own with these tables means, such as `{"approval": {"auto_approve": [...]}}`."""
        if not isinstance(cast(object, given), Mapping):
            raise ConfigError(f"Config.from_dict takes a dict of tables, not {type(given).__name__}.")
        table = plain_table(given, "Config.from_dict")
        return merge_layer(cls(), table, name="Config.from_dict", folder=Path.cwd(), user_level=True).config


def effective_options(config: Config) -> dict[str, Any]:
    """The value of every option a file may set, by its key."""
    found: dict[str, Any] = {}
    for section in options(Config).values():
        value = getattr(config, section.name)
        if is_section(section.kind):
            found |= {f"{section.name}.{name}": getattr(value, name) for name in options(section.kind)}
        else:
            found[section.name] = value
    return found
