"""The JSON Schema of `holdfast.toml` and the user file, for editors and for `holdfast config`."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Struct

from holdfast.config.lists import OPERATIONS
from holdfast.config.model import (
    FUNCTION_PATH,
    PRESET_NAME,
    CommandRule,
    Config,
    McpOAuth,
    McpServer,
    ModelProvider,
    PolicyLayer,
    Preset,
    SecretSource,
)
from holdfast.config.shape import is_edited, is_section, options

JsonObject = dict[str, Any]

DESCRIPTIONS: Final = {
    "tools": "Which tools exist, and how they run.",
    "tools.profile": "The set of tools to begin with.",
    "tools.allow": "Tools, patterns (`browser.*`) and groups (`group:web`) added to the profile.",
    "tools.deny": "Tools, patterns and groups taken away, whatever else allows them.",
    "tools.caps": "How much reading tools show at once; small is for models with little room.",
    "tools.default_timeout": "Seconds a call may take when neither the call nor the tool says otherwise.",
    "tools.strict_check": "What a tool gets that asks for `strict` and whose schema does not meet its rules.",
    "tools.max_concurrent": "How many calls run at the same time.",
    "tools.search_threshold": "With more tools than this the model gets a search tool instead of all of them.",
    "tools.max_depth": "How deep calls may nest; 0 forbids calls made by tools.",
    "tools.modules": "Import paths of modules with tools. User-level only.",
    "tools.entry_points": "Whether installed packages may bring tools.",
    "tools.agents": "Narrower sets for agents, by name.",
    "tools.providers": "Narrower sets for model providers, by name.",
    "tools.skills": "Folders of skills, by name; each holds a `manifest.json`.",
    "tools.config": "Settings of single tools, by tool name.",
    "approval": "Which calls run without asking a person.",
    "approval.auto_approve": (
        "Tool names, patterns, `$presets` and module paths; or one function, `pkg.mod:func`. "
        "Functions and modules are taken only from user-level config."
    ),
    "approval.auto_approve_sandboxed": "Whether commands held by a sandbox may run without asking.",
    "approval.require_approval": "`false` approves whatever nothing else decides about.",
    "approval.presets": "Your own presets, by name; a name begins with `$`.",
    "approval.commands": "Rules about shell commands. Every layer adds, none removes; the strictest wins.",
    "approval.max_risk": "The highest risk a list may approve.",
    "approval.on_error": "What a resolver that fails means: skip it, or ask whatever the others say.",
    "approval.expires": "Seconds after which an approval that was not used is void: the call ends as expired.",
    "pending": "Calls that wait for a person.",
    "pending.ttl": (
        "Seconds a call waits for an answer before it ends as expired; 7 days unless given, and for calls of a "
        "document no end."
    ),
    "hooks": "Who is told, or asked, when a call is about to run.",
    "hooks.autonomy": "Shifts the actions towards more or fewer questions.",
    "hooks.actions": "What happens when a matching tool is called, by tool name or pattern.",
    "sandbox": "What commands can reach.",
    "sandbox.mode": "auto: use a sandbox where there is one; required: run nothing without one; off: use none.",
    "sandbox.writable": "Paths commands and file tools may change; `$root` is the project.",
    "sandbox.read_deny": "Paths commands and file tools cannot read.",
    "sandbox.network": "off, on, or the hosts that can be reached.",
    "sandbox.backend": "The backend by name; auto takes the first that held its probe.",
    "sandbox.environment": "Variables that commands get from their surroundings; `*` stands for any letters.",
    "sandbox.memory": "Bytes of data a process may hold.",
    "sandbox.processes": "How many processes a command may have.",
    "sandbox.file_size": "Bytes the largest file a command writes may have.",
    "sandbox.open_files": "How many files a process may hold open.",
    "sandbox.cpu_seconds": "Seconds of processor time a process may use.",
    "sandbox.undo": "How what a command changes is recorded, so that it can be undone.",
    "sandbox.undo_max_files": "More files than this are not copied beforehand: the command cannot be undone then.",
    "sandbox.undo_max_bytes": "More bytes than this are not copied beforehand: the command cannot be undone then.",
    "output": "How much of an output the model sees.",
    "output.max_lines": "Lines kept of one output.",
    "output.max_bytes": "Bytes kept of one output.",
    "output.max_spill": "Bytes of a cut output that are kept to be read back.",
    "output.max_output_bytes": "A harder limit in bytes; without it there is none.",
    "ledger": "The record of every call.",
    "ledger.enabled": "Whether calls are recorded.",
    "ledger.durability": "What the record survives: the end of the process, or the loss of power.",
    "ledger.keep_days": "How many days finished calls are kept; older ones are pruned once a day.",
    "ledger.max_blob_bytes": "How many bytes of before-images and long outputs are kept; the oldest go first.",
    "model": "Which model answers, and how it is asked.",
    "model.name": "provider:model, such as `anthropic:claude-opus-4-5`; `operator` is built in and needs no key.",
    "model.thinking": "How much the model thinks: a level, a number of tokens, or false.",
    "model.max_tokens": "The longest reply, in tokens or in per cent of what the model can write.",
    "model.temperature": "How freely the model chooses its words; without it the provider decides.",
    "model.cache_retention": "How long the provider keeps the beginning of a conversation for the next request.",
    "model.foreign_thinking": "What becomes of thinking another provider signed: sent as text, or dropped.",
    "model.timeout": "Seconds one request may take.",
    "model.connect_timeout": "Seconds to reach the provider.",
    "model.retries": "How often a request is made again after a limit, an overload or a dropped connection.",
    "model.context": "Tokens a small model has room for: old tool results are trimmed to fit.",
    "model.protocol": "How the model asks for tools: native, text, or auto.",
    "model.providers": "Parameters of single providers, which win over the general ones, and where they are reached.",
    "chat": "How documents are driven.",
    "chat.autopilot": "Go on after approved calls until a person is needed.",
    "chat.max_turns": "Replies in a row without a message of yours.",
    "chat.cursor_after_result": "Where the cursor goes when a result has been written.",
    "chat.files": "Where the files may be that a document refers to: in the project, or anywhere.",
    "guardrails": "Help for small models, rule by rule.",
    "guardrails.enabled": "Whether small models get the help below.",
    "guardrails.surfaces": "Show only the tools that fit what a message asks for.",
    "guardrails.direct": "Do what a message names outright (read, list, edit) without asking the model.",
    "guardrails.scope": "Keep searches in the folder a message names.",
    "guardrails.simplify_queries": "Search for one word where a model asks for a phrase.",
    "guardrails.weak_queries": "Send back searches that would find everything.",
    "guardrails.search_budget": "One search for each message, and a second only if the first found nothing.",
    "guardrails.list_before_search": "Search before folders are listed, where something is to be found in the code.",
    "guardrails.read_budget": "At most three files for each message.",
    "guardrails.duplicate_calls": "Do not repeat a call that has just succeeded.",
    "guardrails.evidence": "Answer questions about the code only after a file that shows the answer was read.",
    "guardrails.citations": "Let an answer name only files that were read.",
    "guardrails.own_answers": "Say without the model what came of a failed read and of a change.",
    "guardrails.edit_repair": "Tell a model that failed to mend an edit how one is written.",
    "guardrails.rounds": "At most ten rounds of calls for each message.",
    "mcp": "Servers that bring tools over MCP, and clients that use yours.",
    "mcp.servers": "MCP servers by name; their tools are called `mcp:name:tool`.",
    "mcp.client_approves": "Whether an MCP client may ask its person for approval; if not, another door must.",
    "mcp.wait": (
        "Seconds a call of an MCP client that cannot ask its person waits for an answer from elsewhere, "
        "such as `holdfast approve`."
    ),
    "McpServer.command": "The program of a server that speaks on its standard streams.",
    "McpServer.args": "The program's arguments.",
    "McpServer.env": (
        "Variables it gets beside what `sandbox.environment` lets through; `${secret:SCOPE}` stands for a secret."
    ),
    "McpServer.cwd": "The folder the program runs in, `$root` for the project; `/` without it.",
    "McpServer.url": "The address of a server that is reached over HTTP.",
    "McpServer.headers": "Headers sent with every request; `${secret:SCOPE}` stands for a secret.",
    "McpServer.transport": "How it is spoken to at its address; auto tries streamable HTTP first.",
    "McpServer.oauth": "How you log in to it, where it asks for that.",
    "McpServer.protocol": "handshake speaks no newer protocol than 2025-11-25; auto finds out.",
    "McpServer.enabled": "Whether it is used.",
    "McpServer.include": "Which of its tools there are; `*` stands for any letters.",
    "McpServer.exclude": "Which of them are left out all the same.",
    "McpServer.trust": (
        "pinned: a tool whose definition has changed is held until you have seen the difference; any: it is not."
    ),
    "McpServer.start_timeout": "Seconds until it has said which tools it has.",
    "McpServer.timeout": "Seconds one call may take.",
    "McpServer.network": "What its program can reach, instead of `sandbox.network`: off, on, or hosts.",
    "McpServer.writable": "Paths its program may change; none without it, whatever `sandbox.writable` says.",
    "McpOAuth.client_id": "The client you registered there; without it holdfast registers itself.",
    "McpOAuth.client_secret": "Its secret, as `${secret:SCOPE}`.",
    "McpOAuth.client_metadata_url": "An https address that describes the client, for servers that know such addresses.",
    "McpOAuth.scopes": "The scopes to ask for.",
    "McpOAuth.redirect_port": "The local port the browser comes back to; 0 takes any free one.",
    "ModelProvider.api": "The wire format of a server holdfast does not know by name. User-level only.",
    "ModelProvider.base_url": "Where the server is. User-level only.",
    "ModelProvider.api_key": "Where the key comes from, instead of the usual variable. User-level only.",
    "ModelProvider.project": "The cloud project. User-level only.",
    "ModelProvider.location": "The cloud region. User-level only.",
    "ModelProvider.thinking": "Wins over `model.thinking`.",
    "ModelProvider.thinking_budget": "Tokens to think with; 0 switches it off.",
    "ModelProvider.reasoning": "The effort OpenAI is asked for.",
    "ModelProvider.effort": "The effort Anthropic is asked for.",
    "ModelProvider.max_tokens": "Wins over `model.max_tokens`.",
    "ModelProvider.temperature": "Wins over `model.temperature`.",
    "ModelProvider.cache_retention": "Wins over `model.cache_retention`.",
    "ModelProvider.protocol": "Wins over `model.protocol`.",
    "secrets": "Where the value of a secret scope comes from, by scope. User-level only.",
    "protected": "Patterns of protected paths beyond the built-in ones. Every layer adds, none removes.",
    "PolicyLayer.profile": "The set of tools to begin with.",
    "PolicyLayer.allow": "Tools added to the profile; never more than the caller has without this layer.",
    "PolicyLayer.deny": "Tools taken away.",
    "PolicyLayer.caps": "How much reading tools show at once.",
    "Preset.approve": "What the preset approves.",
    "Preset.deny": "What the preset denies; a denial wins over every approval.",
    "CommandRule.rule": "The words a command begins with; `*` at the end stands for any further operands.",
    "CommandRule.verdict": "What holds for such commands, also when they are hidden in others.",
    "CommandRule.options": "Options an approving rule lets through; `--name=` with any value.",
    "CommandRule.operands": "What `*` stands for: operands of a program known to only read (`known`), or files and "
    "folders of the project that are there, whatever the program does with them (`files`).",
    "CommandRule.match": "Commands the rule must decide about; checked when the configuration is read.",
    "CommandRule.not_match": "Commands it must not decide about.",
    "SecretSource.env": "The environment variable that holds it.",
    "SecretSource.keyring": "`service/user` in the system's keyring.",
    "SecretSource.command": "A command that prints it.",
}
_EDIT: Final = "ListEdit"


def json_schema() -> JsonObject:
    """A JSON Schema (2020-12) of everything a file may say."""
    import msgspec.json

    made = msgspec.json.schema(Config)
    defs = cast(dict[str, JsonObject], made["$defs"])
    _describe(defs, Config, "", "")
    for section, kind in options(Config).items():
        if is_section(kind):
            _describe(defs, kind, section, section)
    for named in (PolicyLayer, Preset, CommandRule, SecretSource, ModelProvider, McpServer, McpOAuth):
        _describe(defs, named, "", named.__name__)
    approval = cast(dict[str, JsonObject], defs["ApprovalConfig"]["properties"])
    approval["presets"]["propertyNames"] = {"pattern": PRESET_NAME}
    for choice in approval["auto_approve"]["anyOf"]:
        if choice.get("type") == "string":
            choice["pattern"] = FUNCTION_PATH
    defs["SecretSource"]["oneOf"] = [{"required": [name]} for name in options(SecretSource)]
    _describe_server(defs["McpServer"])
    defs[_EDIT] = _list_edit()
    top = defs.pop("Config")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "title": "holdfast configuration",
        "$defs": defs,
    }


def _describe(defs: dict[str, JsonObject], shape: type[Struct], path: str, prefix: str) -> None:
    """Take out what no file may set; add the descriptions and, for lists, their operations."""
    made = defs[shape.__name__]
    given = cast(dict[str, JsonObject], made["properties"])
    known = options(shape, path)
    made.pop("required", None)
    made["properties"] = {
        name: _property(given[name], DESCRIPTIONS[f"{prefix}.{name}" if prefix else name], is_edited(shape, name, kind))
        for name, kind in known.items()
    }


def _describe_server(made: JsonObject) -> None:
    """A layer may speak of a server that another names, so neither command nor url is required."""
    made["not"] = {"required": ["command", "url"]}
    for choice in made["properties"]["url"]["anyOf"]:
        if choice["type"] == "string":
            choice["pattern"] = "^https?://"


def _property(given: JsonObject, description: str, edited: bool) -> JsonObject:
    if not edited:
        return {**given, "description": description}
    plain = {key: value for key, value in given.items() if key != "default"}
    choices = [*plain.pop("anyOf", [plain]), {"$ref": f"#/$defs/{_EDIT}"}]
    default = {"default": given["default"]} if "default" in given else {}
    return {"anyOf": choices, "description": description, **default}


def _list_edit() -> JsonObject:
    names: JsonObject = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return {
        "title": "List operations",
        "description": "Changes to the list of the layer below; each may be written with or without `$`.",
        "type": "object",
        "properties": {f"{sign}{name}": names for name in OPERATIONS for sign in ("", "$")},
        "minProperties": 1,
        "additionalProperties": False,
    }


def option_keys() -> list[str]:
    """Every option a file may set, in the order of the model."""
    found: list[str] = []
    for section, kind in options(Config).items():
        found += [f"{section}.{name}" for name in options(kind, section)] if is_section(kind) else [section]
    return found
