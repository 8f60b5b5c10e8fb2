"""A strictness ordering of configurations: whether one allows nothing that the other forbids.

It shares no code with the trust rules of the options, so that property tests can check those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.config.config import (
    PENDING_TTL,
    ApprovalConfig,
    BrowserConfig,
    ChatConfig,
    CommandRule,
    Config,
    ConfirmationConfig,
    GuardrailsConfig,
    McpServer,
    MediaConfig,
    MinioConfig,
    ModelConfig,
    ModelProvider,
    NotifyConfig,
    PolicyLayer,
    Preset,
    SandboxConfig,
    ToolsConfig,
    WebConfig,
)

_AUTONOMY: Final = {"cautious": 0, "standard": 1, "autonomous": 2}
_ACTIONS: Final = {"confirm": 0, "log": 1, "silent": 2}
_MODES: Final = {"required": 0, "auto": 1, "off": 2}
_UNLIMITED: Final = float("inf")
Check = tuple[str, bool]


def at_least_as_strict(one: Config, other: Config) -> bool:
    return not looser_options(one, other)


def looser_options(one: Config, other: Config) -> list[str]:
    """Return the options in which `one` is looser than `other`."""
    checks = (
        *_tools(one.tools, other.tools),
        *_approval(one.approval, other.approval),
        *_confirmation(one.confirmation, other.confirmation),
        *_sandbox(one.sandbox, other.sandbox),
        *_model(one.model, other.model),
        *_chat(one.chat, other.chat),
        *_guardrails(one.guardrails, other.guardrails),
        ("network.hosts", _holds(other.network.hosts, one.network.hosts)),
        ("network.private", one.network.private == other.network.private),
        *_web(one.web, other.web),
        *_browser(one.browser, other.browser),
        *_media(one.media, other.media),
        ("output.max_lines", one.output.max_lines <= other.output.max_lines),
        ("output.max_bytes", one.output.max_bytes <= other.output.max_bytes),
        ("output.max_spill", one.output.max_spill <= other.output.max_spill),
        ("output.max_attachments", one.output.max_attachments <= other.output.max_attachments),
        ("output.max_attachment_bytes", one.output.max_attachment_bytes <= other.output.max_attachment_bytes),
        ("output.max_output_bytes", _within(one.output.max_output_bytes, other.output.max_output_bytes)),
        (
            "approval.auto_approve_sandboxed",
            other.sandbox.mode != "off" or one.sandbox.mode == "off" or not one.approval.auto_approve_sandboxed,
        ),
        ("pending.ttl", _sooner(one.pending.ttl, other.pending.ttl)),
        ("ledger.enabled", one.ledger.enabled or not other.ledger.enabled),
        ("ledger.durability", one.ledger.durability == "power" or other.ledger.durability == "process"),
        ("ledger.keep_days", one.ledger.keep_days == other.ledger.keep_days),
        ("ledger.max_blob_bytes", one.ledger.max_blob_bytes == other.ledger.max_blob_bytes),
        ("memory.namespaces", _matches_no_more(one.memory.namespaces, other.memory.namespaces)),
        ("memory.shared", one.memory.shared == other.memory.shared),
        ("memory.embedder", one.memory.embedder == other.memory.embedder),
        ("memory.max_item_bytes", one.memory.max_item_bytes <= other.memory.max_item_bytes),
        *_minio(one.minio, other.minio),
        *_notify(one.notify, other.notify),
        ("google.client_id", one.google.client_id == other.google.client_id),
        ("google.account", one.google.account == other.google.account),
        ("google.families", set(one.google.families) <= set(other.google.families)),
        ("google.max_bytes", one.google.max_bytes <= other.google.max_bytes),
        ("google.endpoint", one.google.endpoint == other.google.endpoint),
        ("k8s.kubeconfig", one.k8s.kubeconfig == other.k8s.kubeconfig),
        ("k8s.context", one.k8s.context == other.k8s.context),
        ("k8s.contexts", _matches_no_more(one.k8s.contexts, other.k8s.contexts)),
        ("k8s.exec_plugins", other.k8s.exec_plugins or not one.k8s.exec_plugins),
        ("k8s.insecure", other.k8s.insecure or not one.k8s.insecure),
        ("mcp.servers", _servers(one.mcp.servers, other.mcp.servers)),
        ("mcp.client_approves", other.mcp.client_approves or not one.mcp.client_approves),
        ("mcp.wait", one.mcp.wait <= other.mcp.wait),
        ("secrets", one.secrets == other.secrets),
        ("agent", other.agent in (None, one.agent)),
        ("skill", other.skill in (None, one.skill)),
        ("protected", _holds(one.protected, other.protected)),
    )
    return [path for path, strict in checks if not strict]


def _web(one: WebConfig, other: WebConfig) -> tuple[Check, ...]:
    limits = ("rate", "burst", "max_bytes", "cache_bytes", "cache_seconds")
    fixed = ("user_agent", "search", "search_url")
    return (
        ("web.robots", one.robots or not other.robots),
        *((f"web.{name}", getattr(one, name) <= getattr(other, name)) for name in limits),
        *((f"web.{name}", getattr(one, name) == getattr(other, name)) for name in fixed),
    )


def _media(one: MediaConfig, other: MediaConfig) -> tuple[Check, ...]:
    limits, fixed = ("max_bytes", "max_pixels", "max_seconds"), ("vision_model", "transcription_model", "whisper_model")
    return (
        *((f"media.{name}", getattr(one, name) <= getattr(other, name)) for name in limits),
        *((f"media.{name}", getattr(one, name) == getattr(other, name)) for name in fixed),
    )


def _minio(one: MinioConfig, other: MinioConfig) -> tuple[Check, ...]:
    limits = ("timeout", "max_upload_bytes", "max_object_bytes", "max_link_seconds")
    fixed = ("endpoint", "public_endpoint", "bucket", "buckets", "region", "access_key", "secret", "style", "ca_file")
    return (
        *((f"minio.{name}", getattr(one, name) <= getattr(other, name)) for name in limits),
        *((f"minio.{name}", getattr(one, name) == getattr(other, name)) for name in fixed),
    )


def _notify(one: NotifyConfig, other: NotifyConfig) -> tuple[Check, ...]:
    """A project may neither redirect notifications nor silence them."""
    names = NotifyConfig.__struct_fields__
    return tuple((f"notify.{name}", getattr(one, name) == getattr(other, name)) for name in names)


def _browser(one: BrowserConfig, other: BrowserConfig) -> tuple[Check, ...]:
    limits = ("navigation_timeout", "action_timeout", "max_browsers", "max_downloads", "max_download_bytes")
    fixed = ("executable", "user_agent")
    return (
        ("browser.headless", one.headless or not other.headless),
        ("browser.subresources", one.subresources == "approved" or other.subresources == "public"),
        *((f"browser.{name}", getattr(one, name) <= getattr(other, name)) for name in limits),
        *((f"browser.{name}", getattr(one, name) == getattr(other, name)) for name in fixed),
    )


def _tools(one: ToolsConfig, other: ToolsConfig) -> tuple[Check, ...]:
    return (
        ("tools.profile", one.profile == other.profile),
        ("tools.allow", _holds(other.allow, one.allow)),
        ("tools.deny", _holds(one.deny, other.deny)),
        ("tools.caps", one.caps == "small" or other.caps == "standard"),
        ("tools.default_timeout", one.default_timeout <= other.default_timeout),
        ("tools.strict_check", one.strict_check == "error" or other.strict_check == "warn"),
        ("tools.max_concurrent", one.max_concurrent <= other.max_concurrent),
        ("tools.search_threshold", one.search_threshold <= other.search_threshold),
        ("tools.max_depth", one.max_depth <= other.max_depth),
        ("tools.modules", _holds(other.modules, one.modules)),
        ("tools.entry_points", other.entry_points or not one.entry_points),
        ("tools.agents", _layers(one.agents, other.agents)),
        ("tools.providers", _layers(one.providers, other.providers)),
        ("tools.skills", one.skills == other.skills),
        ("tools.config", one.config == other.config),
        ("tools.narrow", all(layer in one.narrow for layer in other.narrow)),
    )


def _approval(one: ApprovalConfig, other: ApprovalConfig) -> tuple[Check, ...]:
    return (
        ("approval.auto_approve", one.auto_approve == other.auto_approve),
        ("approval.excluded", _holds(one.excluded, other.excluded)),
        ("approval.removed", _holds((*one.removed, *one.excluded), other.removed)),
        ("approval.importable", _holds(other.importable, one.importable)),
        ("approval.auto_approve_sandboxed", other.auto_approve_sandboxed or not one.auto_approve_sandboxed),
        ("approval.require_approval", one.require_approval or not other.require_approval),
        ("approval.presets", _presets(one.presets, other.presets)),
        ("approval.commands", _commands(one.commands, other.commands)),
        ("approval.widen", _holds(other.widen, one.widen)),
        (
            "approval.max_risk",
            other.max_risk is None or (one.max_risk is not None and one.max_risk.level <= other.max_risk.level),
        ),
        (
            "approval.two_people",
            other.two_people is None or (one.two_people is not None and one.two_people.level <= other.two_people.level),
        ),
        ("approval.on_error", one.on_error == "ask" or other.on_error == "skip"),
        ("approval.narrow", all(names in one.narrow for names in other.narrow)),
        ("approval.expires", _within(one.expires, other.expires)),
    )


def _confirmation(one: ConfirmationConfig, other: ConfirmationConfig) -> tuple[Check, ...]:
    kept = all(
        pattern in one.actions and _ACTIONS[one.actions[pattern]] <= _ACTIONS[action]
        for pattern, action in other.actions.items()
    )
    added = all(action == "confirm" for pattern, action in one.actions.items() if pattern not in other.actions)
    return (
        ("confirmation.autonomy", _AUTONOMY[one.autonomy] <= _AUTONOMY[other.autonomy]),
        ("confirmation.actions", kept and added),
    )


def _hides(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether `one` has every entry of the other, and no additional exception."""
    mine, theirs = (tuple(entry for entry in names if entry.startswith("!")) for names in (one, other))
    return _holds(one, [entry for entry in other if not entry.startswith("!")]) and _holds(theirs, mine)


def _sandbox(one: SandboxConfig, other: SandboxConfig) -> tuple[Check, ...]:
    return (
        ("sandbox.mode", _MODES[one.mode] <= _MODES[other.mode]),
        ("sandbox.writable", _holds(other.writable, one.writable)),
        ("sandbox.read_deny", _hides(one.read_deny, other.read_deny)),
        ("sandbox.network", _reaches_no_further(one.network, other.network)),
        ("sandbox.backend", one.backend == other.backend),
        ("sandbox.environment", _holds(other.environment, one.environment)),
        ("sandbox.memory", _within(one.memory, other.memory)),
        ("sandbox.processes", _within(one.processes, other.processes)),
        ("sandbox.file_size", _within(one.file_size, other.file_size)),
        ("sandbox.open_files", _within(one.open_files, other.open_files)),
        ("sandbox.cpu_seconds", _within(one.cpu_seconds, other.cpu_seconds)),
        ("sandbox.undo", one.undo == other.undo),
        ("sandbox.undo_max_files", one.undo_max_files == other.undo_max_files),
        ("sandbox.undo_max_bytes", one.undo_max_bytes == other.undo_max_bytes),
    )


def _model(one: ModelConfig, other: ModelConfig) -> tuple[Check, ...]:
    """Thinking, temperature and the like are free; the model, its address and the timeouts are not."""
    names = one.providers.keys() | other.providers.keys()
    unknown = ModelProvider()
    endpoints = (
        _endpoint(one.providers.get(name, unknown)) == _endpoint(other.providers.get(name, unknown)) for name in names
    )
    return (
        ("model.name", one.name == other.name),
        ("model.providers", all(endpoints)),
        ("model.timeout", one.timeout <= other.timeout),
        ("model.connect_timeout", one.connect_timeout <= other.connect_timeout),
        ("model.retries", one.retries <= other.retries),
        ("model.context", _within(one.context, other.context)),
    )


def _endpoint(provider: ModelProvider) -> tuple[object, ...]:
    return (provider.api, provider.base_url, provider.api_key, provider.project, provider.location)


def _chat(one: ChatConfig, other: ChatConfig) -> tuple[Check, ...]:
    return (
        ("chat.autopilot", other.autopilot or not one.autopilot),
        ("chat.max_turns", one.max_turns <= other.max_turns),
        ("chat.files", one.files == "project" or other.files == "anywhere"),
    )


def _guardrails(one: GuardrailsConfig, other: GuardrailsConfig) -> tuple[Check, ...]:
    rules = GuardrailsConfig.__struct_fields__
    return tuple((f"guardrails.{rule}", getattr(one, rule) or not getattr(other, rule)) for rule in rules)


def _layers(one: Mapping[str, PolicyLayer], other: Mapping[str, PolicyLayer]) -> bool:
    """An additional layer is one more intersection, so never looser."""
    return all(
        name in one
        and (one[name].profile, one[name].allow) == (layer.profile, layer.allow)
        and _holds(one[name].deny, layer.deny)
        and (one[name].caps == "small" or layer.caps != "small")
        and _matches_no_more(one[name].namespaces, layer.namespaces)
        for name, layer in other.items()
    )


def _matches_no_more(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return "*" in other or _holds(other, one)


def _presets(one: Mapping[str, Preset], other: Mapping[str, Preset]) -> bool:
    kept = all(
        name in one and _holds(preset.approve, one[name].approve) and _holds(one[name].deny, preset.deny)
        for name, preset in other.items()
    )
    return kept and not any(preset.approve for name, preset in one.items() if name not in other)


def _commands(one: Iterable[CommandRule], other: Iterable[CommandRule]) -> bool:
    """Keep what the other asks about or denies, and approve or reach nothing beyond it."""
    mine, theirs = set(one), set(other)
    return not any(rule.verdict != "approve" for rule in theirs - mine) and not any(
        rule.verdict == "approve" or rule.network or rule.read or rule.write for rule in mine - theirs
    )


def _servers(one: Mapping[str, McpServer], other: Mapping[str, McpServer]) -> bool:
    """Fewer servers are stricter; an additional one, or another under the same name, is not."""
    return all(name in other and _server(server, other[name]) for name, server in one.items())


def _server(one: McpServer, other: McpServer) -> bool:
    return (
        (one.command, one.args, one.cwd, one.env) == (other.command, other.args, other.cwd, other.env)
        and (one.url, one.transport, one.headers, one.oauth) == (other.url, other.transport, other.headers, other.oauth)
        and one.protocol == other.protocol
        and (other.enabled or not one.enabled)
        and ("*" in other.include or _holds(other.include, one.include))
        and _holds(one.exclude, other.exclude)
        and (one.trust == "pinned" or other.trust == "any")
        and one.start_timeout <= other.start_timeout
        and one.timeout <= other.timeout
        and _own_network(one, other)
        and _holds(other.writable, one.writable)
    )


def _own_network(one: McpServer, other: McpServer) -> bool:
    """A value that follows the sandbox is comparable only with itself."""
    if one.network is None or other.network is None:
        return one.network in ("off", other.network)
    return _reaches_no_further(one.network, other.network)


def _reaches_no_further(one: str | tuple[str, ...], other: str | tuple[str, ...]) -> bool:
    return other == "on" or (one != "on" and _holds(_hosts(other), _hosts(one)))


def _hosts(network: str | tuple[str, ...]) -> tuple[str, ...]:
    return () if isinstance(network, str) else network


def _within(one: float | None, other: float | None) -> bool:
    return (_UNLIMITED if one is None else one) <= (_UNLIMITED if other is None else other)


def _sooner(one: float | None, other: float | None) -> bool:
    return one == other or _within(one, other or PENDING_TTL)


def _holds(whole: Iterable[str], part: Iterable[str]) -> bool:
    return set(part) <= set(whole)
