"""Hypothesis strategies for configurations and calls, and in-memory runtimes that judge and run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from hypothesis import assume
from hypothesis import strategies as st
from msgspec import Struct

from holdfast import Config, Proposal, Risk, Runtime, Tool
from holdfast.config.merge import merge_layer
from holdfast.contract.enums import CHANGED_DEFINITION
from holdfast.contract.errors import ConfigError
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.launch import Backend
from holdfast.sandbox.sandbox import Sandbox
from holdfast.tools import builtin_tools

Table = dict[str, Any]
PATHS: Final = ("notes.txt", "Makefile", "src/a.py", "missing.txt", "../outside.txt", ".git/config", "hidden", "a\0b")
COMMANDS: Final = (
    "ls", "make test", "git push origin main", "git status", "echo hi", "cd src && make test", "ls; rm notes.txt",
    "cat ../outside.txt", "$x", "true", "cat notes.txt | tail -1", "pwd",
)  # fmt: skip


class FakeBackend(Struct, frozen=True):
    """Stands for a backend that contains everything."""

    name: str = "fake"
    guarantees: frozenset[str] = frozenset({"everything"})


class FakeSandbox(Sandbox):
    """The policy of the configuration, with a backend that works or not."""

    works = True

    def backend(self) -> Backend | None:
        return cast(Backend, FakeBackend()) if self.works and self.mode != "off" else None

    def passes_escape_tests(self) -> bool:
        return self.backend() is not None and self._config.backend != "landlock"


def _ran(args: Any, ctx: Any) -> str:
    return "ran"


def _sending(args: Any, ctx: Any) -> Proposal:
    risk = Risk.HIGH if "urgent" in args.get("text", "") else Risk.LOW
    return Proposal(tool_name="send", summary="send", risk=risk, payload={})


def _unready(args: Any, ctx: Any) -> Any:
    if "urgent" in args.get("text", ""):
        raise RuntimeError("not ready")
    return "nothing to do"


_TEXT: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
OTHERS: Final = (
    Tool(name="note", input_schema=_TEXT, execute=_ran, effects=frozenset({"external"})),
    Tool(name="risky", input_schema=_TEXT, execute=_ran, effects=frozenset({"external"}), risk=Risk.HIGH),
    Tool(name="sum", input_schema=_TEXT, execute=_ran, effects=frozenset()),
    Tool(name="unknown_effects", input_schema=_TEXT, execute=_ran),
    Tool(name="manual", input_schema=_TEXT, effects=frozenset({"external"})),
    Tool(name="mail", input_schema=_TEXT, execute=_ran, effects=frozenset(), required_secret_scopes=("mail",)),
    Tool(name="send", input_schema=_TEXT, propose=_sending, apply=_ran, effects=frozenset({"external"})),
    Tool(name="unready", input_schema=_TEXT, propose=_unready, apply=_ran, effects=frozenset({"external"})),
    Tool(
        name="changed", input_schema=_TEXT, execute=_ran, effects=frozenset({"external"}),
        capabilities=frozenset({CHANGED_DEFINITION}),
    ),
)  # fmt: skip


def tools() -> list[Tool]:
    """The built-in tools, without those that start processes really doing it, and some tools of a program."""
    made: list[Tool] = []
    for tool in builtin_tools():
        if tool.name in ("shell.exec", "process.start"):
            tool = tool.with_(apply=_ran) if tool.apply is not None else tool.with_(execute=_ran)  # noqa: PLW2901
        made.append(tool)
    return [*made, *OTHERS]


TOOLS: Final = tuple(tools())
NAMES: Final = tuple(tool.name for tool in TOOLS)

_name = st.sampled_from([*NAMES, "bash", "read", "file.*", "*", "group:fs", "group:runtime"])
_names = st.lists(_name, max_size=3, unique=True)
_presets = st.sampled_from(["$default", "$readonly", "$shell-readonly", "$mine"])
_items = st.lists(st.one_of(_name, _presets), max_size=3, unique=True)
_edits = st.dictionaries(st.sampled_from(["set", "append", "prepend", "remove"]), _items, min_size=1)
_FUNCTIONS: Final = tuple(f"{__name__}:{name}" for name in ("says_nothing", "says_yes", "says_no", "fails"))


def says_nothing(tool: str, args: object, ctx: object) -> None:
    return None


def says_yes(tool: str, args: object, ctx: object) -> bool:
    return True


def says_no(tool: str, args: object, ctx: object) -> bool:
    return False


def fails(tool: str, args: object, ctx: object) -> bool:
    raise RuntimeError("broken")


_rule = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["make test", "git push *", "echo *", "ls", "rm"]),
        "verdict": st.sampled_from(["approve", "ask", "deny"]),
    }
)


OPTIONS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "tools.profile": st.sampled_from(["minimal", "messaging", "coding", "full"]),
    "tools.allow": st.one_of(_names, _edits),
    "tools.deny": _names,
    "tools.caps": st.sampled_from(["standard", "small"]),
    "tools.max_depth": st.sampled_from([0, 3]),
    "tools.entry_points": st.booleans(),
    "tools.config": st.just({"shell.exec": {"shell": "/bin/dash"}}),
    "approval.auto_approve": st.one_of(_items, _edits, _edits, st.sampled_from(_FUNCTIONS)),
    "approval.auto_approve_sandboxed": st.booleans(),
    "approval.require_approval": st.booleans(),
    "approval.presets": st.dictionaries(
        st.sampled_from(["$default", "$readonly", "$mine"]),
        st.fixed_dictionaries({}, optional={"approve": _names, "deny": _names}),
        max_size=2,
    ),
    "approval.commands": st.lists(_rule, max_size=2),
    "approval.max_risk": st.sampled_from(["low", "medium", "high"]),
    "approval.on_error": st.sampled_from(["skip", "ask"]),
    "approval.expires": st.just(60),
    "pending.ttl": st.just(60),
    "confirmation.autonomy": st.sampled_from(["cautious", "standard", "autonomous"]),
    "confirmation.actions": st.dictionaries(_name, st.sampled_from(["confirm", "log", "silent"]), max_size=2),
    "sandbox.mode": st.sampled_from(["auto", "required", "off"]),
    "sandbox.backend": st.sampled_from(["auto", "landlock"]),
    "sandbox.writable": st.lists(st.sampled_from(["$root", "$root/src", "$root/.."]), max_size=2, unique=True),
    "sandbox.read_deny": st.lists(st.sampled_from(["$root/hidden", "$root/src"]), max_size=2, unique=True),
    "sandbox.network": st.sampled_from(["off", "on", ["a.example"]]),
    "sandbox.environment": st.just(["PATH"]),
    "sandbox.undo": st.sampled_from(["auto", "off"]),
    "sandbox.memory": st.just(2**30),
    "output.max_lines": st.just(10),
    "ledger.enabled": st.booleans(),
    "chat.autopilot": st.booleans(),
    "chat.files": st.sampled_from(["project", "anywhere"]),
    "guardrails.enabled": st.booleans(),
    "mcp.client_approves": st.booleans(),
    "secrets": st.just({"mail": {"command": ["/nonexistent/fetch"]}}),
    "protected": st.lists(st.sampled_from(["src", "notes.txt"]), max_size=1),
}
"""Values for the options that can affect a call."""

Setting = tuple[str, Any]
_OFTEN: Final = {"approval.auto_approve": 10, "approval.presets": 3, "approval.commands": 3, "sandbox.mode": 3}
_paths: Final = [path for path in OPTIONS for _ in range(_OFTEN.get(path, 1))]
setting: st.SearchStrategy[Setting] = st.sampled_from(_paths).flatmap(
    lambda path: st.tuples(st.just(path), OPTIONS[path])
)
layers: st.SearchStrategy[list[Setting]] = st.lists(setting, max_size=4, unique_by=lambda made: made[0])


def table_of(*layer: Setting) -> Table:
    made: Table = {}
    for path, value in layer:
        section, _, key = path.partition(".")
        if key:
            made.setdefault(section, {})[key] = value
        else:
            made[section] = value
    return made


def laid_over(base: Config, *layer: Setting, user_level: bool = True) -> Config:
    """The configuration with one more layer. A layer that contradicts it discards the example."""
    try:
        return merge_layer(base, table_of(*layer), name="layer", folder=Path("/"), user_level=user_level).config
    except ConfigError:
        assume(False)
        raise


CALLS: Final[tuple[tuple[str, Any], ...]] = (
    *(("file.read", {"path": path}) for path in PATHS),
    ("read", {"path": "notes.txt"}),
    *(("file.write", {"path": path, "content": "x"}) for path in PATHS),
    *(("file.list", {"path": path}) for path in (".", "src", "..", "hidden")),
    *(("shell.exec", {"command": command}) for command in COMMANDS),
    *((name, {"command": "make test"}) for name in ("bash", "process.start")),
    ("calculator", {"expression": "1+1"}),
    ("calculator", {"expression": "1/0"}),
    ("git.status", {}),
    *((tool.name, {"text": text}) for tool in OTHERS for text in ("hi", "urgent")),
    ("note", {"text": 7}),
    ("note", "not json"),
    ("note", '{"text": "hi"}'),
    ("file.read", None),
    ("nonsense", {}),
)
calls: st.SearchStrategy[tuple[str, Any]] = st.sampled_from(CALLS)


def project_in(folder: Path) -> Path:
    root = folder / "project"
    (root / "src").mkdir(parents=True, exist_ok=True)
    (root / ".git").mkdir(exist_ok=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / "hidden").mkdir(exist_ok=True)
    (root / "notes.txt").write_text("one\n")
    (root / "src" / "a.py").write_text("a = 1\n")
    (folder / "outside.txt").write_text("outside\n")
    return root


def runtime_for(config: Config, root: Path, *, sandbox_works: bool, **options: Any) -> Runtime:
    sandbox = FakeSandbox(config.sandbox, root=root, cwd=root, remember=False)
    sandbox.works = sandbox_works
    return Runtime(tools=TOOLS, config=config, workspace=Workspace(root=root, sandbox=sandbox), **options)
