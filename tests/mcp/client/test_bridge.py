"""Servers of the configuration as tools of a runtime: real processes, through the whole path of a call."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Attachment
from holdfast.config.config import McpServer
from holdfast.contract.enums import Failure, Risk, State
from holdfast.contract.event import Progress, ServerLogged
from tests.mcp.client.bridge_fixtures import Impatient, bridged, methods, plain, script, until, wire
from tests.runtime.support import run

SILENT = script("import sys; sys.stdin.read()", start_timeout=0.3)


@pytest.mark.spec("K1", "R7")
def test_the_tools_of_a_server_are_called_by_its_name_and_theirs(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, bridge):
            result = await runtime.call("mcp:p:echo", {"text": "hello"})
            assert (result.output, result.state) == ("hello", State.DONE)
            assert (await runtime.call("mcp__p__echo", '{"text": "hi"}')).output == "hi"
            tool = runtime.registry.get("mcp:p:echo")
            assert tool is not None
            assert (tool.effects, tool.risk, tool.source) == (None, Risk.MEDIUM, "mcp:p")
            (status,) = bridge.status()
            assert (status.state, status.title, status.version, status.protocol) == (
                "ready", "Plain server", "1.0", "2025-11-25",
            )  # fmt: skip
            assert status.tools == len(runtime.registry.names())
        assert bridge.status()[0].state == "off"
        assert runtime.registry.names() == ()

    run(work())


@pytest.mark.spec("K1", "T9", "T10b")
def test_structure_images_audio_resources_and_errors_are_kept(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            blocks = await runtime.call("mcp:p:blocks")
            assert blocks.output == "one\ntwo"
            assert blocks.attachments == (
                Attachment(kind="image", mime_type="image/png", data=b"\x89PNG"),
                Attachment(kind="audio", mime_type="audio/wav", data=b"RIFF"),
                Attachment(kind="file", mime_type="text/plain", data=b"inside", uri="file:///../etc/passwd"),
                Attachment(kind="file", mime_type="application/octet-stream", name="far", uri="demo://x/../../y"),
            )
            typed = await runtime.call("mcp:p:typed")
            assert (typed.output, typed.structured) == ("5", {"n": 5})
            failed = await runtime.call("mcp:p:fail")
            assert (failed.state, failed.error) == (State.FAILED, "it broke")
            refused = await runtime.call("mcp:p:refuse")
            assert (refused.state, refused.error) == (State.FAILED, "Not like that (MCP error -32602)")

    run(work())


@pytest.mark.spec("K1", "T9")
def test_structure_that_the_output_schema_refuses_is_no_success(tmp_path: Path) -> None:
    async def work() -> None:
        server = plain(tmp_path / "p")
        output = {"type": "object", "properties": {"n": {"type": "string"}}}
        typed = [{"name": "typed", "inputSchema": {"type": "object"}, "outputSchema": output}]
        (tmp_path / "p" / "tools.json").write_text(json.dumps(typed))
        async with bridged(tmp_path, {"p": server}) as (runtime, _):
            result = await runtime.call("mcp:p:typed")
            assert (result.state, result.failure) == (State.FAILED, Failure.INVALID_OUTPUT)

    run(work())


@pytest.mark.spec("K1")
def test_progress_and_log_messages_are_events_of_their_call_and_a_flood_of_them_is_counted(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            with runtime.subscribe(10_000) as events:
                busy = await runtime.call("mcp:p:busy")
                logged = await runtime.call("mcp:p:log")
                seen = events.take()
            steps = [event for event in seen if isinstance(event, Progress)]
            assert [(step.call_id, step.message, step.done, step.total) for step in steps] == [
                (busy.call_id, f"step {step}", float(step), 3.0) for step in range(3)
            ]
            lines = [event for event in seen if isinstance(event, ServerLogged)]
            assert [line.message for line in lines] == [f"me: line {count}" for count in range(100)]
            assert {(line.source, line.level, line.call_id) for line in lines} == {("mcp:p", "info", logged.call_id)}

    run(work())


@pytest.mark.spec("K1")
def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            call_id = runtime.pipeline.new_call_id()
            call = asyncio.create_task(runtime.call("mcp:p:sleep", call_id=call_id))
            await until((tmp_path / "p" / "asleep").exists)
            assert runtime.cancel(call_id)
            assert (await call).state is State.UNKNOWN
            await until(lambda: "notifications/cancelled" in methods(tmp_path / "p"))
            sent = {message.get("method"): message for message in wire(tmp_path / "p")}
            assert sent["notifications/cancelled"]["params"]["requestId"] == sent["tools/call"]["id"]
            assert (await runtime.call("mcp:p:echo", {"text": "still here"})).output == "still here"

    run(work())


@pytest.mark.spec("K1")
def test_a_call_that_takes_too_long_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p", timeout=0.2)}) as (runtime, _):
            result = await runtime.call("mcp:p:sleep")
            assert (result.state, result.failure) == (State.UNKNOWN, Failure.TIMEOUT)
            await until(lambda: "notifications/cancelled" in methods(tmp_path / "p"))

    run(work())


@pytest.mark.spec("K1")
def test_a_server_that_dies_in_a_call_leaves_it_unknown_and_comes_back(tmp_path: Path) -> None:
    async def work() -> None:
        servers = {"p": plain(tmp_path / "p"), "q": plain(tmp_path / "q")}
        async with bridged(tmp_path, servers) as (runtime, bridge):
            before = (await runtime.call("mcp:p:pid")).output
            beside = (await runtime.call("mcp:q:pid")).output
            died = await runtime.call("mcp:p:die")
            assert (died.state, died.failure) == (State.UNKNOWN, Failure.OUTCOME_UNKNOWN)
            assert died.error == "MCP server 'p' did not respond: it exited with 3"
            away = await runtime.call("mcp:p:echo", {"text": "?"})
            assert (away.state, away.error) == (
                State.FAILED,
                "MCP server 'p' is not running (it exited with 3) and is restarted in 1 s. The call was not sent.",
            )
            await until(lambda: bridge.status()[0].state == "ready")
            assert (await runtime.call("mcp:p:pid")).output not in ("", before)
            assert (await runtime.call("mcp:q:pid")).output == beside
            assert methods(tmp_path / "p").count("tools/call") == 3  # nothing was sent twice

    run(work())


@pytest.mark.spec("K1", "R4", "R5")
def test_a_server_that_never_answers_holds_up_nobody_else(tmp_path: Path) -> None:
    async def work() -> None:
        servers = {"silent": SILENT, "p": plain(tmp_path / "p")}
        async with bridged(tmp_path, servers, ready=False) as (runtime, bridge):
            await until(lambda: runtime.registry.has("mcp:p:echo"))
            assert (await runtime.call("mcp:p:echo", {"text": "first"})).output == "first"
            await runtime.pipeline.wait_for_sources()
            assert any("mcp.silent" in warning and "0.3" in warning for warning in runtime.warnings())
            assert bridge.status()[0].tools == 0

    run(work())


@pytest.mark.spec("K1", "R5")
def test_a_server_that_cannot_be_started_is_a_warning_and_is_tried_ever_more_rarely(tmp_path: Path) -> None:
    async def work() -> None:
        clock = Impatient()
        servers = {"gone": McpServer(command=str(tmp_path / "no-such-program"))}
        async with bridged(tmp_path, servers, clock=clock) as (runtime, bridge):
            assert any("mcp.gone" in warning for warning in runtime.warnings())
            assert await clock.until(9) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
            assert bridge.status()[0].reason

    run(work())


@pytest.mark.spec("K1")
def test_a_server_that_failed_at_first_has_its_tools_registered_when_it_comes(tmp_path: Path) -> None:
    late = plain(tmp_path / "p")
    program = f"""
import pathlib, runpy, sys
seen = pathlib.Path({str(tmp_path / "seen")!r})
if not seen.exists():
    seen.touch()
    sys.exit("not yet")
sys.argv = {["plain", *late.args[1:]]!r}
runpy.run_path({late.args[0]!r}, run_name="__main__")
"""

    async def work() -> None:
        async with bridged(tmp_path, {"late": script(program)}, clock=Impatient()) as (runtime, bridge):
            assert not runtime.registry.names()
            assert any("not yet" in warning for warning in runtime.warnings())
            await until(lambda: bridge.status()[0].state == "ready")
            assert (await runtime.call("mcp:late:echo", {"text": "here"})).output == "here"

    run(work())


@pytest.mark.spec("K1")
def test_health_for_a_minute_makes_the_next_pause_short_again(tmp_path: Path) -> None:
    async def work() -> None:
        clock = Impatient()
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, clock=clock) as (runtime, bridge):
            for _ in range(2):
                await runtime.call("mcp:p:die")
                await until(lambda: bridge.status()[0].state == "ready")
            clock.time += 61
            await runtime.call("mcp:p:die")
            assert await clock.until(3) == [0.5, 1, 0.5]

    run(work())


@pytest.mark.spec("K1")
def test_a_changed_list_is_followed_without_a_gap_and_a_flood_of_news_is_read_once_or_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            missing: list[str] = []
            runtime.registry.on_change(lambda: None if runtime.registry.has("mcp:p:change") else missing.append("!"))
            new = [{"name": name, "inputSchema": {"type": "object"}} for name in ("change", "fresh")]
            (tmp_path / "p" / "tools.json").write_text(json.dumps(new))
            assert (await runtime.call("mcp:p:change")).output == "changed"
            await until(lambda: runtime.registry.names() == ("mcp:p:change", "mcp:p:fresh"))
            assert missing == []
            assert methods(tmp_path / "p").count("tools/list") <= 3

    run(work())


@pytest.mark.spec("K1", "R7")
def test_what_cannot_be_a_tool_is_left_out_with_a_warning_and_the_rest_stays(tmp_path: Path) -> None:
    async def work() -> None:
        server = plain(tmp_path / "p", include=("*",), exclude=("secret*",))
        fine = {"type": "object"}
        listed = [
            {"name": "good", "inputSchema": fine},
            {"name": "GOOD", "inputSchema": fine},
            {"name": "twice", "inputSchema": fine},
            {"name": "twice", "inputSchema": fine},
            {"name": "evil\nname", "inputSchema": fine},
            {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://far.example/x"}}}},
            {"name": "secret_tool", "inputSchema": fine},
            {"name": "a/b.c-", "inputSchema": fine},
        ]
        (tmp_path / "p" / "tools.json").write_text(json.dumps(listed))
        async with bridged(tmp_path, {"p": server}) as (runtime, _):
            assert runtime.registry.names() == ("mcp:p:a/b.c-", "mcp:p:good", "mcp:p:twice")
            warned = "\n".join(runtime.warnings())
            assert all(name in warned for name in ("'GOOD'", "'twice'", "evil", "'odd'"))
            assert "secret" not in warned
            api_name = runtime.registry.list()[0].api_name
            assert (await runtime.call(api_name, {})).output == "a/b.c-"

    run(work())


@pytest.mark.spec("K1")
def test_a_server_that_floods_harms_only_itself(tmp_path: Path) -> None:
    async def work() -> None:
        servers = {"p": plain(tmp_path / "p", timeout=0.5), "q": plain(tmp_path / "q")}
        async with bridged(tmp_path, servers) as (runtime, _):
            flood = asyncio.create_task(runtime.call("mcp:p:flood"))
            for count in range(20):
                async with asyncio.timeout(30):
                    assert (await runtime.call("mcp:q:echo", {"text": str(count)})).output == str(count)
            assert (await flood).state is State.UNKNOWN

    run(work())


@pytest.mark.spec("K1")
def test_a_server_that_is_not_enabled_is_not_started(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p", enabled=False)}) as (runtime, bridge):
            assert runtime.registry.names() == ()
            assert bridge.status()[0].state == "off"
            assert not (tmp_path / "p" / "wire.jsonl").exists()

    run(work())
