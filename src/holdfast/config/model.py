"""The one typed configuration. What a field means lives here; where its value comes from is `load`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from holdfast.contract.vocabulary import Risk

FUNCTION_PATH: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
PRESET_NAME: Final = r"^\$[A-Za-z0-9_.-]+$"
# Checked where a layer is read: `Meta(pattern=...)` in a union with a tuple crashes msgspec 0.22.

Profile = Literal["minimal", "messaging", "coding", "full"]
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
Table = dict[str, Any]
PENDING_TTL: Final = 7 * 86_400.0
"""Seconds a call waits for an answer by default, unless it belongs to a document."""
Budget = Annotated[int, Meta(ge=0, le=2**31)]
Percent = Annotated[str, Meta(pattern=r"^(100|[1-9][0-9]?)%$")]
Temperature = Annotated[float, Meta(ge=0, le=2)]

INTERNAL: Final = frozenset(
    {
        "tools.narrow",
        "approval.auto_approve_set",
        "approval.excluded",
        "approval.importable",
        "approval.narrow",
    }
)
"""Fields that `load` computes and no file may set."""

READ_DENY: Final = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/hub",
    "~/.config/rclone",
    "~/.kube",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.npmrc",
    "~/.pypirc",
    "~/.cargo/credentials.toml",
    "~/.terraform.d",
    "~/.vault-token",
    "~/.password-store",
    "~/.local/share/keyrings",
    "~/.mozilla",
    "~/.config/google-chrome",
    "~/.config/chromium",
)


ENVIRONMENT: Final = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "USER",
    "LOGNAME",
    "SHELL",
)


class PolicyLayer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tools are left for an agent, a provider or an untrusted file; it is intersected with the rest."""

    profile: Profile | None = None
    allow: Names = ()
    deny: Names = ()
    caps: Caps | None = None


class ToolsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    profile: Profile = "coding"
    allow: Names = ()
    deny: Names = ()
    caps: Caps = "standard"
    """How much reading tools show at once; `small` for models with little room."""
    default_timeout: Seconds = 30.0
    strict_check: Literal["warn", "error"] = "warn"
    max_concurrent: Count = 8
    search_threshold: Count = 100
    max_depth: Annotated[int, Meta(ge=0, le=1000)] = 8
    modules: Names = ()
    entry_points: bool = True
    agents: dict[str, PolicyLayer] = field(default_factory=dict[str, PolicyLayer])
    providers: dict[str, PolicyLayer] = field(default_factory=dict[str, PolicyLayer])
    skills: dict[str, Name] = field(default_factory=dict[str, str])
    config: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    narrow: tuple[PolicyLayer, ...] = ()
    """Layers of untrusted files: a tool is left only if each of them leaves it too."""


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    approve: Names = ()
    deny: Names = ()


class CommandRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for shell commands that begin with these words."""

    rule: Name
    """Words of a command; `*` at the end stands for any further operands."""
    verdict: Literal["approve", "ask", "deny"]
    options: Names = ()
    """Options an approving rule lets through; `--name=` with any value."""
    operands: Literal["known", "files"] = "known"
    """What `*` stands for: operands of a program that is known to only read, or files of the project, whatever the
    program does with them."""
    match: Names = ()
    """Commands the rule must decide about, or the configuration is wrong."""
    not_match: Names = ()


class ApprovalConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    auto_approve: Names | Name = ("$default",)
    """Tool names, patterns, `$presets` and module paths; or one function, `pkg.mod:func`."""
    auto_approve_set: bool = False
    """Whether user-level config or trusted content set `auto_approve`; the built-in default does not count."""
    excluded: Names = ()
    """Names removed from `auto_approve` that are not literally in it: filtered where presets are expanded."""
    importable: Names = ()
    """What user-level config put into `auto_approve`: only these items may be taken for import paths."""
    auto_approve_sandboxed: bool = True
    require_approval: bool = True
    presets: dict[Name, Preset] = field(default_factory=dict[str, Preset])
    commands: Annotated[tuple[CommandRule, ...], Meta(max_length=1000)] = ()
    """Every layer adds, none removes; the strictest rule wins."""
    max_risk: Risk | None = None
    on_error: Literal["skip", "ask"] = "skip"
    narrow: tuple[Names, ...] = ()
    """Lists of untrusted files: nothing is approved by `auto_approve` unless each of them approves it too."""
    expires: Seconds = 86_400.0


class PendingConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl: Seconds | None = None
    """None: `PENDING_TTL`, and without end for calls of a document."""


class HooksConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    autonomy: Autonomy = "standard"
    actions: dict[Name, Action] = field(default_factory=dict[str, Action])


class SandboxConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Literal["auto", "required", "off"] = "auto"
    backend: Name = "auto"
    """A backend by name; `auto` takes the first that held its probe."""
    writable: Names = ("$root",)
    read_deny: Names = READ_DENY
    network: Literal["off", "on"] | Names = "off"
    environment: Names = ENVIRONMENT
    """Variables of the surroundings that commands get; `*` stands for any letters."""
    memory: Count | None = 4 * 1024**3
    """Bytes of data a process may hold; where control groups can be used, all of them together."""
    processes: Count | None = 512
    file_size: Count | None = 4 * 1024**3
    open_files: Count | None = 4096
    cpu_seconds: Count | None = None
    undo: Literal["auto", "overlay", "copy", "off"] = "auto"
    """How what a command changes is recorded, so that it can be undone."""
    undo_max_files: Count = 50_000
    undo_max_bytes: Count = 256 * 1024**2


class OutputConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_lines: Count = 2000
    max_bytes: Count = 51_200
    max_spill: Annotated[int, Meta(ge=0, le=2**53)] = 64 * 1024 * 1024
    max_output_bytes: Count | None = None


class LedgerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    durability: Literal["process", "power"] = "process"
    keep_days: Seconds | None = 90.0
    """How many days finished calls are kept, with their before-images and spills."""
    max_blob_bytes: Count | None = 2 * 1024**3
    """How much space before-images and spills may take; the oldest go first."""


class SecretSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the value of a secret scope is fetched from when a tool uses it."""

    env: Name | None = None
    keyring: Name | None = None
    """`service/user`."""
    command: Annotated[Names, Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.env, self.keyring, self.command)) != 1:
            raise ValueError("give exactly one of env, keyring and command")
        if self.keyring is not None and not all(self.keyring.partition("/")):
            raise ValueError("write a keyring entry as 'service/user'")


class ModelProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider: where it is reached, and parameters that win over the general ones."""

    api: ModelApi | None = None
    """The wire format of a server holdfast does not know by name."""
    base_url: Name | None = None
    api_key: SecretSource | None = None
    """Instead of the provider's usual environment variable."""
    project: Name | None = None
    location: Name | None = None
    thinking: ThinkingLevel | Budget | Literal[False] | None = None
    thinking_budget: Budget | None = None
    reasoning: Name | None = None
    effort: Name | None = None
    max_tokens: Count | Percent | None = None
    temperature: Temperature | None = None
    cache_retention: CacheRetention | None = None
    protocol: Protocol | None = None


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name = "operator"
    """`provider:model`, such as `anthropic:claude-opus-4-5`; `operator` is built in and needs no key."""
    thinking: ThinkingLevel | Budget | Literal[False] = "high"
    max_tokens: Count | Percent = "50%"
    temperature: Temperature | None = None
    cache_retention: CacheRetention = "short"
    foreign_thinking: ForeignThinking = "preserve"
    """What becomes of thinking another provider signed: sent as text, or dropped."""
    timeout: Seconds = 600.0
    connect_timeout: Seconds = 10.0
    retries: Annotated[int, Meta(ge=0, le=20)] = 4
    context: Count | None = None
    """Tokens the model has room for; set it for small ones, and old tool results are trimmed to fit."""
    protocol: Protocol = "auto"
    """How it asks for tools: by the provider's own means, or in text; `auto` takes text for models without such."""
    providers: dict[Name, ModelProvider] = field(default_factory=dict[str, ModelProvider])


class ChatConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    autopilot: bool = True
    """Go on by itself after approved calls, until a person is needed."""
    max_turns: Count = 100
    """Replies in a row without a message of yours."""
    cursor_after_result: Literal["result", "stay", "next"] = "result"
    files: Reach = "project"
    """Where files may be that the text of a document refers to or includes."""


class GuardrailsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Help for small models, rule by rule. None of them lets a call do more than it could without."""

    enabled: bool = False
    surfaces: bool = True
    """Only the tools that fit what a message asks for are shown; a call of another ends the turn the second time."""
    direct: bool = True
    """What a message names outright (a file to read, a folder to list, an edit) is asked for without the model."""
    scope: bool = True
    """`in some/folder` in a message keeps searches there."""
    simplify_queries: bool = True
    weak_queries: bool = True
    search_budget: bool = True
    list_before_search: bool = True
    """Where something is to be found in the code, a search comes before listings."""
    read_budget: bool = True
    duplicate_calls: bool = True
    evidence: bool = True
    """An answer about the code comes after a file that shows it was read."""
    citations: bool = True
    """Files an answer names must have been read."""
    own_answers: bool = True
    """The runtime says itself what came of a failed read and of a change, instead of the model."""
    edit_repair: bool = True
    rounds: bool = True
    """At most ten rounds of calls for one message."""


class McpOAuth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a person logs in to a server. All of it can be left out where the server registers clients by itself."""

    client_id: Name | None = None
    client_secret: Name | None = None
    client_metadata_url: Name | None = None
    """An https address that describes this client; servers that know such addresses need no registration."""
    scopes: Names = ()
    redirect_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Where the browser comes back to on this machine; 0: any free port."""


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One MCP server: a command that speaks on its standard streams, or an address."""

    command: Name | None = None
    args: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    env: dict[Name, str] = field(default_factory=dict[str, str])
    """Beside what `sandbox.environment` lets through; `${secret:SCOPE}` in a value stands for a secret."""
    cwd: Name | None = None
    url: Name | None = None
    headers: dict[Name, str] = field(default_factory=dict[str, str])
    """`${secret:SCOPE}` in a value stands for a secret."""
    transport: Literal["auto", "http", "sse"] = "auto"
    oauth: McpOAuth | None = None
    protocol: Literal["auto", "handshake"] = "auto"
    """`handshake`: no newer than 2025-11-25, for servers that say they speak more and then cannot ask."""
    enabled: bool = True
    include: Names = ("*",)
    exclude: Names = ()
    trust: Literal["pinned", "any"] = "pinned"
    """`pinned`: a definition that has changed is held until a person has seen the difference."""
    start_timeout: Seconds = 30.0
    timeout: Seconds = 60.0
    """For one call."""
    network: Literal["off", "on"] | Names | None = None
    """For a command; None: what `sandbox.network` says."""
    writable: Names = ()
    """For a command: where it can write beside its private /tmp."""

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


SERVER_IDENTITY: Final = ("command", "args", "env", "cwd", "url", "headers", "transport", "oauth", "protocol")
"""What makes an MCP server the one it is; the rest are limits on it."""


class McpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    servers: dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(?!\n)$")], McpServer] = field(
        default_factory=dict[str, McpServer]
    )
    client_approves: bool = True
    """Whether a yes of the person behind an MCP client counts; a client is believed to have asked one."""
    wait: Annotated[float, Meta(ge=0, le=31_536_000)] = 45.0
    """Seconds a call of an MCP client that cannot ask its person waits for an answer from another door."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    approval: ApprovalConfig = field(default_factory=ApprovalConfig)
    pending: PendingConfig = field(default_factory=PendingConfig)
    hooks: HooksConfig = field(default_factory=HooksConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    ledger: LedgerConfig = field(default_factory=LedgerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    chat: ChatConfig = field(default_factory=ChatConfig)
    guardrails: GuardrailsConfig = field(default_factory=GuardrailsConfig)
    mcp: McpConfig = field(default_factory=McpConfig)
    secrets: dict[Name, SecretSource] = field(default_factory=dict[str, SecretSource])
    protected: Names = ()
    """Protected path patterns beyond the built-in ones; every layer adds, none removes."""
