"""The context that a tool receives while it runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from holdfast import Caller, Config, HoldfastError, Runtime, Tool
from holdfast.config.config import OutputConfig, PolicyLayer, SandboxConfig, ToolsConfig
from holdfast.contract.call import Call
from holdfast.contract.errors import CallError, PathRefused
from holdfast.runtime.workspace import Workspace
from tests.runtime.support import recorder, run, runtime_in, yes


def _look(folder: Path, see: Callable[[Any], Any], **options: Any) -> Any:
    """The value of `see(ctx)` inside a running tool."""
    seen: list[Any] = []

    async def execute(args: Any, ctx: Any) -> str:
        seen.append(see(ctx))
        return "ok"

    folder.mkdir(exist_ok=True)
    looker = Tool(name="look.around", aliases=("peek",), execute=execute, effects=frozenset(), timeout=12.5)
    place = {name: options.pop(name) for name in ("cwd", "document") if name in options}
    services = options.pop("services", {})
    runtime = Runtime(tools=[looker], workspace=Workspace(root=folder, **place), **options)
    for protocol, helper in services.items():
        runtime.services.offer(protocol, helper)
    result = run(runtime.call("look.around"))
    assert result.success, result.error
    return seen[0]


@pytest.mark.spec("T7")
def test_the_context_has_the_folders_ids_and_timeout_of_the_call(tmp_path: Path) -> None:
    seen = _look(
        tmp_path / "root",
        lambda ctx: (ctx.cwd, ctx.root, ctx.timeout, ctx.document_dir, ctx.document_name, ctx.parent_call_id),
    )
    assert seen == (tmp_path / "root", tmp_path / "root", 12.5, None, None, None)
    document = tmp_path / "root" / "talks" / "one.chat"
    assert _look(tmp_path / "root", lambda ctx: (ctx.document_dir, ctx.document_name), document=document) == (
        document.parent,
        "one.chat",
    )


@pytest.mark.spec("T7", "N5")
def test_relative_paths_are_resolved_from_the_document_or_else_from_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert _look(root, lambda ctx: ctx.path.resolve("a/b.txt"), cwd=str(elsewhere)) == root / "a" / "b.txt"
    document = root / "talks" / "one.chat"
    assert _look(root, lambda ctx: ctx.path.resolve("a.txt"), document=document) == root / "talks" / "a.txt"
    assert _look(root, lambda ctx: ctx.path.confine("a.txt"), document=document) == root / "a.txt"
    assert _look(root, lambda ctx: ctx.path.resolve("/etc/hosts")) == Path("/etc/hosts")


@pytest.mark.spec("N5", "A6")
def test_touched_paths_of_other_tools_are_resolved_from_the_document_and_from_the_root(tmp_path: Path) -> None:
    def touches(args: Any) -> list[str]:
        return [args["text"]]

    note, _ = recorder(effects=frozenset({"fs.write"}), touches=touches)
    runtime = runtime_in(tmp_path, note, document=tmp_path / "project" / "talks" / "one.chat")
    call = Call("a", "note", "note", {"text": "x"}, Caller(), str(tmp_path / "project"))
    found = {str(path.relative_to(tmp_path / "project")) for path in runtime.approvals.touched_paths(note, call)}
    assert found == {"x", "talks/x"}


def _refused(action: Callable[[], Any]) -> str:
    try:
        action()
    except PathRefused as error:
        return str(error)
    return ""


@pytest.mark.spec("T7", "N5")
def test_confine_refuses_paths_outside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert _look(root, lambda ctx: ctx.path.confine("a.txt")) == root / "a.txt"
    assert _look(root, lambda ctx: ctx.path.confine("a/../b.txt")) == root / "b.txt"
    assert _look(root, lambda ctx: _refused(lambda: ctx.path.confine("../b.txt")))
    assert _look(root, lambda ctx: _refused(lambda: ctx.path.confine("a/../b.txt", mutating=True)))
    assert _look(root, lambda ctx: _refused(lambda: ctx.path.confine(str(tmp_path / "root-evil" / "x"))))


@pytest.mark.spec("T7")
def test_the_context_truncates_text(tmp_path: Path) -> None:
    def see(ctx: Any) -> Any:
        cut = ctx.truncate.tail("a\nb\nc", 2)
        return cut.content, cut.truncated, cut.total_lines, cut.output_lines, ctx.truncate.format_size(12345)

    assert _look(tmp_path, see) == ("b\nc", True, 3, 2, "12.1KB")
    assert _look(tmp_path, lambda ctx: (ctx.truncate.MAX_LINES, ctx.truncate.MAX_BYTES)) == (2000, 51200)
    small = Config(output=OutputConfig(max_lines=2))
    assert _look(tmp_path, lambda ctx: ctx.truncate.head("a\nb\nc").content, config=small) == "a\nb"


@pytest.mark.spec("T7", "B2")
def test_a_caller_configured_for_small_caps_gets_them(tmp_path: Path) -> None:
    config = Config(tools=ToolsConfig(providers={"local": PolicyLayer(caps="small")}))
    assert _look(tmp_path, lambda ctx: ctx.caps, config=config) == "standard"
    assert _look(tmp_path, lambda ctx: ctx.caps, config=config, caller=Caller(provider="local")) == "small"
    assert _look(tmp_path, lambda ctx: ctx.caps, config=Config(tools=ToolsConfig(caps="small"))) == "small"


@pytest.mark.spec("T7")
def test_config_is_a_deep_copy_of_the_tools_settings(tmp_path: Path) -> None:
    config = Config(tools=ToolsConfig(config={"look.around": {"shell": {"path": "zsh"}}}))

    def see(ctx: Any) -> Any:
        ctx.config()["shell"]["path"] = "changed"
        return ctx.config()

    assert _look(tmp_path, see, config=config) == {"shell": {"path": "zsh"}}
    assert _look(tmp_path, lambda ctx: ctx.config()) is None


@pytest.mark.spec("T7")
def test_config_is_found_by_an_alias_but_the_tools_own_name_wins(tmp_path: Path) -> None:
    tools = ToolsConfig(config={"look.around": {"shell": "zsh"}, "peek": {"shell": "sh", "depth": 2}})
    assert _look(tmp_path, lambda ctx: ctx.config(), config=Config(tools=tools)) == {"shell": "zsh", "depth": 2}


@pytest.mark.spec("T7")
def test_the_sandbox_knows_writable_paths_and_wraps_commands(tmp_path: Path) -> None:
    root = tmp_path / "root"

    def see(ctx: Any) -> Any:
        return ctx.sandbox.is_path_writable(root / "a"), ctx.sandbox.is_path_writable("/etc/passwd")

    assert _look(root, see) == (True, False)
    wrapped = _look(root, lambda ctx: ctx.sandbox.wrap_command(["/bin/sh", "-c", "echo in; echo x > /etc/planted"]))
    done = subprocess.run(wrapped, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode != 0, done.stdout, Path("/etc/planted").exists()) == (True, "in\n", False)
    off = Config(sandbox=SandboxConfig(mode="off"))
    assert _look(root, lambda ctx: ctx.sandbox.wrap_command(["true"]), config=off) == ["true"]
    assert _look(root, lambda ctx: ctx.sandbox.is_path_writable("/etc/passwd"), config=off) is True


class Clock(Protocol):
    def now(self) -> float: ...


class _Fixed:
    def now(self) -> float:
        return 42.0


@pytest.mark.spec("T7")
def test_services_are_found_by_their_protocol(tmp_path: Path) -> None:
    assert _look(tmp_path, lambda ctx: ctx.service(Clock).now(), services={Clock: _Fixed()}) == 42.0

    def missing(ctx: Any) -> str:
        with pytest.raises(HoldfastError, match="has no Clock"):
            ctx.service(Clock)
        return "told"

    assert _look(tmp_path, missing) == "told"


@pytest.mark.spec("T7")
def test_call_blocking_is_refused_in_the_event_loop(tmp_path: Path) -> None:
    def see(ctx: Any) -> str:
        with pytest.raises(CallError, match=r"await ctx\.call"):
            ctx.call_blocking("look.around")
        return "told"

    assert _look(tmp_path, see) == "told"


@pytest.mark.spec("T7", "A5a")
def test_the_tool_id_is_the_id_the_model_gave_in_every_phase(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    note, _ = recorder()

    async def execute(args: Any, ctx: Any) -> str:
        seen.append(("run", ctx.tool_id))
        return "ran"

    runtime = runtime_in(tmp_path, note.with_(execute=execute), asker=yes())
    runtime.approvals.register("spy", lambda name, args, ctx: seen.append(("chain", ctx.tool_id)))
    runtime.middleware_for("note", before=lambda args, ctx: seen.append(("before", ctx.tool_id)))
    run(runtime.judge("note", {"text": "x"}, given_id="toolu_1"))
    assert run(runtime.call("note", {"text": "x"}, given_id="toolu_1")).success
    assert {phase for phase, _ in seen} == {"run", "chain", "before"}
    assert {tool_id for _, tool_id in seen} == {"toolu_1"}
    seen.clear()
    result = run(runtime.call("note", {"text": "x"}))
    assert {tool_id for _, tool_id in seen} == {result.call_id}
