"""`process.*`: background processes, and only those that holdfast started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from holdfast import Config, Result, Risk, Runtime, State
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.contract.call import Answer, Caller, ProcessIdentity
from holdfast.contract.processes import Processes
from holdfast.runtime.background_processes import MAX_ENDED, ProcessRecord
from holdfast.text.preview import preview
from holdfast.tools.processes import PROCESS_KILL, PROCESS_LIST, PROCESS_OUTPUT, PROCESS_START
from tests.runtime.command_helpers import PROCESS_TOOLS, Mode, mark, shell_in, survivors, until
from tests.runtime.support import run, runtime_in

Script = Callable[[Runtime], Coroutine[Any, Any, Any]]


def _with(folder: Path, script: Script, mode: Mode = "off", **options: Any) -> Any:
    async def main() -> Any:
        async with shell_in(folder, mode, **options) as runtime:
            return await script(runtime)

    return run(main())


def _fields(result: Result) -> Any:
    assert result.success, result.error
    return cast(Any, result.structured)


async def _ended(runtime: Runtime, pid: int) -> Any:
    """Wait for the end and return the status."""
    folder = runtime.services.get(Processes)
    await until(lambda: folder.find(pid).state != "running")
    return _fields(await runtime.call("process.status", {"pid": pid}))


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("B4", "T11")
def test_a_process_outlives_its_call_and_ends_with_the_runtime(tmp_path: Path, mode: Mode) -> None:
    marker = mark()

    async def script(runtime: Runtime) -> None:
        started = _fields(await runtime.call("process.start", {"command": f"setsid sleep {marker} & sleep {marker}"}))
        await until(lambda: len(survivors(marker)) >= 2)
        status = _fields(await runtime.call("process.status", {"pid": started["pid"]}))
        assert (status["state"], status["id"]) == ("running", started["id"])
        assert status["contained"] is (mode == "required")

    _with(tmp_path, script, mode)
    assert survivors(marker) == []


@pytest.mark.spec("B4")
def test_the_exit_status_is_known_afterwards(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> tuple[Any, Any]:
        first = _fields(await runtime.call("process.start", {"command": "exit 5"}))
        second = _fields(await runtime.call("process.start", {"command": "kill -SEGV $$", "label": "crash"}))
        return await _ended(runtime, first["pid"]), await _ended(runtime, second["pid"])

    exited, crashed = _with(tmp_path, script)
    assert (exited["state"], exited["exit_code"], exited["signal"]) == ("exited", 5, None)
    assert (crashed["exit_code"], crashed["signal"], crashed["label"]) == (None, "SIGSEGV", "crash")


@pytest.mark.spec("B4")
def test_with_args_no_shell_interprets_the_command(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> str:
        given = {"command": "printf", "args": ["%s|", "$HOME", "a b", ";"]}
        started = _fields(await runtime.call("process.start", given))
        await _ended(runtime, started["pid"])
        return (await runtime.call("process.output", {"pid": started["pid"]})).output

    assert _with(tmp_path, script) == "$HOME|a b|;|"


@pytest.mark.spec("B4", "X7")
def test_output_is_read_from_the_end_or_from_an_offset(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> list[Result]:
        pid = _fields(await runtime.call("process.start", {"command": "seq 3000"}))["pid"]
        await _ended(runtime, pid)
        asked = [{}, {"offset": 2, "limit": 2}, {"offset": 2999}, {"offset": 3001}, {"limit": 3}]
        return [await runtime.call("process.output", {"pid": pid, **args}) for args in asked]

    tail, page, end, beyond, three = _with(tmp_path, script)
    assert tail.output.startswith("2501\n")
    assert tail.output.endswith("3000\n\n[Showing lines 2501-3000 of 3000.]")
    assert page.output == "2\n3\n\n[Showing lines 2-3 of 3000. Use offset=4 to continue.]"
    assert end.output.startswith("2999\n3000")
    assert beyond.error == "Offset 3001 is beyond the end of the output (3000 lines so far)."
    assert _fields(three)["content"] == "2998\n2999\n3000"


@pytest.mark.spec("B4", "X8")
def test_endless_output_does_not_fill_the_disk(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> tuple[Any, int]:
        pid = _fields(await runtime.call("process.start", {"command": "seq 1000000"}))["pid"]
        await _ended(runtime, pid)
        kept = sum(path.stat().st_size for path in (tmp_path / "state" / "processes").glob("*.out.*"))
        return _fields(await runtime.call("process.output", {"pid": pid, "offset": 1, "limit": 1})), kept

    page, kept = _with(tmp_path, script, output={"max_spill": 200_000})
    assert kept <= 200_000 + 65_536
    assert page["total_lines"] == 1_000_000
    assert page["first_line"] == page["dropped_lines"] + 1
    assert page["content"] == str(page["first_line"])


@pytest.mark.spec("B4", "T11")
def test_the_list_shows_all_processes_oldest_first(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> tuple[Result, Result]:
        empty = await runtime.call("process.list", {})
        for command in ("sleep 100", "exit 0"):
            started = _fields(await runtime.call("process.start", {"command": command}))
        await _ended(runtime, started["pid"])
        return empty, await runtime.call("process.list", {})

    empty, listed = _with(tmp_path, script)
    assert empty.output == "No background processes."
    assert [item["state"] for item in _fields(listed)["processes"]] == ["running", "exited"]
    assert "running: sleep 100\n" in listed.output


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("B4")
def test_sigterm_can_be_ignored_and_sigkill_cannot(tmp_path: Path, mode: Mode) -> None:
    marker = mark()
    program = f"trap 'echo asked' TERM; echo ready; while :; do sleep {marker} & wait; done"

    async def script(runtime: Runtime) -> tuple[Result, Result, Result]:
        pid = _fields(await runtime.call("process.start", {"command": program}))["pid"]
        await until(lambda: runtime.services.get(Processes).output(pid, offset=None, limit=5).text == "ready")
        asked = await runtime.call("process.kill", {"pid": pid})
        killed = await runtime.call("process.kill", {"pid": pid, "signal": "SIGKILL"})
        assert survivors(marker) == []
        return asked, killed, await runtime.call("process.output", {"pid": pid})

    asked, killed, output = _with(tmp_path, script, mode)
    assert _fields(asked)["state"] == "running"
    assert asked.output.endswith("; it has not ended yet.")
    assert _fields(killed)["state"] == "exited"
    assert killed.output.endswith("; it has ended.")
    assert "ready\nasked" in output.output


@pytest.mark.spec("B4")
def test_only_processes_started_by_holdfast_can_be_killed(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "100"])
    try:

        async def script(runtime: Runtime) -> list[Result]:
            await runtime.call("process.start", {"command": "sleep 100"})
            pids = (1, 0, -1, os.getpid(), os.getppid(), other.pid)
            return [await runtime.call("process.kill", {"pid": pid, "signal": "SIGKILL"}) for pid in pids]

        for result in _with(tmp_path, script):
            assert "holdfast has not started a process" in (result.error or "")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.spec("B4")
def test_a_reused_pid_is_not_mistaken_for_the_old_process(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "100"])
    try:

        async def script(runtime: Runtime) -> list[Result]:
            started = _fields(await runtime.call("process.start", {"command": "exit 0"}))
            await _ended(runtime, started["pid"])
            file = tmp_path / "state" / "processes" / f"{started['id']}.json"
            record = msgspec.json.decode(file.read_bytes(), type=ProcessRecord)
            stale = ProcessIdentity(other.pid, record.worker.started)
            file.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, pid=other.pid, worker=stale)))
            file.with_suffix(".end").unlink()
            asked = {"pid": other.pid}
            return [await runtime.call("process.status", asked), await runtime.call("process.kill", asked)]

        status, kill = _with(tmp_path, script)
        assert _fields(status)["state"] == "lost"
        assert "there is nothing to kill" in (kill.error or "")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.spec("B4")
def test_a_process_is_found_by_pid_or_id(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> None:
        started = _fields(await runtime.call("process.start", {"command": "sleep 100"}))
        by_id = _fields(await runtime.call("process.status", {"id": started["id"]}))
        assert by_id["pid"] == started["pid"]
        as_text = _fields(await runtime.call("process.status", {"pid": str(started["pid"])}))
        assert as_text["id"] == started["id"]
        for name in ("process.status", "process.output", "process.kill"):
            missing = await runtime.call(name, {})
            assert missing.state is State.INVALID and "pid" in (missing.error or "")

    _with(tmp_path, script)


@pytest.mark.spec("B4")
def test_without_a_ledger_processes_are_listed_until_the_runtime_ends(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> str:
        pid = _fields(await runtime.call("process.start", {"command": "echo kept"}))["pid"]
        await _ended(runtime, pid)
        return (await runtime.call("process.output", {"pid": pid})).output

    assert _with(tmp_path, script, ledger=None) == "kept"


@pytest.mark.spec("B4")
def test_secrets_in_the_output_are_redacted(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> str:
        runtime.redactor.add("token", "hunter2-hunter2")
        pid = _fields(await runtime.call("process.start", {"command": "echo hunter2-hunter2"}))["pid"]
        await _ended(runtime, pid)
        return (await runtime.call("process.output", {"pid": pid})).text

    assert _with(tmp_path, script) == "[secret token]"


@pytest.mark.spec("B4")
def test_processes_that_ended_long_ago_are_dropped(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> int:
        folder = tmp_path / "state" / "processes"
        first = _fields(await runtime.call("process.start", {"command": "exit 0"}))
        await _ended(runtime, first["pid"])
        record = msgspec.json.decode((folder / f"{first['id']}.json").read_bytes(), type=ProcessRecord)
        for number in range(MAX_ENDED + 5):
            old = msgspec.structs.replace(record, id=f"old{number}", started=float(number))
            (folder / f"old{number}.json").write_bytes(msgspec.json.encode(old))
        await runtime.call("process.start", {"command": "exit 0"})
        assert not (folder / "old0.json").exists()
        return len(list(folder.glob("*.json")))

    assert _with(tmp_path, script) == MAX_ENDED + 1


@pytest.mark.spec("T5", "T6", "O1")
def test_the_approval_shows_what_is_started_and_killed(tmp_path: Path) -> None:
    asked = Config(approval=ApprovalConfig(auto_approve=()), sandbox=SandboxConfig(mode="off", undo="off"))

    async def main() -> tuple[Any, Any]:
        async with runtime_in(tmp_path, *PROCESS_TOOLS, config=asked, nobody="pending") as runtime:
            await runtime.call("process.start", {"command": "npm", "args": ["run", "dev server"], "detached": True})
            start = runtime.pending.list()[0]
            assert start.proposal is not None
            assert (await runtime.call("process.start", {"command": "sleep 100"})).state is State.PENDING
            started = _fields(await runtime.approve(runtime.pending.list()[1].call.id))
            await runtime.call("process.kill", {"pid": started["pid"]})
            return start.proposal, runtime.pending.list()[1].proposal

    start, kill = run(main())
    assert start.risk is Risk.HIGH
    assert start.summary == "start npm run 'dev server' (detached)"
    assert start.preview == "npm run 'dev server'"
    assert start.surroundings.undo == "cannot be undone: the changes of a background process are not recorded"
    assert start.surroundings.lasts == "keeps running after holdfast exits"
    assert kill.preview.startswith("SIGTERM to this process and all its descendants:\n")
    assert kill.preview.endswith("running: sleep 100")
    assert kill.surroundings.undo == "cannot be undone"


@pytest.mark.spec("O1")
def test_the_previews_describe_the_call() -> None:
    serve = {"command": "npm", "args": ["run", "dev"], "label": "serve"}
    shown = [
        preview("process.start", serve, 80, PROCESS_START.format_preview),
        preview("process.kill", {"pid": 12, "signal": None}, 80, PROCESS_KILL.format_preview),
        preview("process.output", {"pid": "abc", "offset": 5}, 80, PROCESS_OUTPUT.format_preview),
        preview("process.list", {"label": "look"}, 80, PROCESS_LIST.format_preview),
    ]
    assert shown == [
        "process.start: $ npm run dev  # serve",
        "process.kill: SIGTERM 12",
        "process.output: abc  +5,500",
        "process.list: # look",
    ]


@pytest.mark.spec("B4")
def test_an_interface_of_one_call_does_not_start_a_process_that_would_end_at_once(tmp_path: Path) -> None:
    asked = Config(approval=ApprovalConfig(auto_approve=()), sandbox=SandboxConfig(mode="off", undo="off"))

    async def main() -> Result:
        async with runtime_in(tmp_path, PROCESS_START, config=asked, nobody="pending") as first:
            held = await first.call("process.start", {"command": "sleep 60"})
            assert held.state is State.PENDING
        caller = Caller(interface="cli")
        async with runtime_in(tmp_path, PROCESS_START, config=asked, nobody="pending", caller=caller) as second:
            return await second.answer(held.call_id, Answer(kind="approve", by="person"))

    assert "would end with this command" in (run(main()).error or "")


@pytest.mark.spec("B4", "X7")
def test_a_line_too_long_to_show_is_cut_and_reading_continues_after_it(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> list[str]:
        pid = _fields(await runtime.call("process.start", {"command": "head -c 100000 /dev/zero | tr '\\0' x; seq 3"}))
        await _ended(runtime, pid["pid"])
        asked: list[dict[str, int]] = [{"offset": 1}, {"offset": 2}]
        return [(await runtime.call("process.output", {"pid": pid["pid"], **more})).output for more in asked]

    first, second = _with(tmp_path, script)
    assert first.startswith("x" * 51200 + "\n\n[Showing the first 50.0KB of line 1 (97.7KB long) of 3. Use offset=2 ")
    assert second == "2\n3\n\n[Showing lines 2-3 of 3.]"


@pytest.mark.spec("T6", "N2")
def test_the_approval_says_that_a_background_process_has_no_network(tmp_path: Path) -> None:
    sandbox = SandboxConfig(mode="required", undo="off", network=("example.org",))
    asked = Config(approval=ApprovalConfig(auto_approve=()), sandbox=sandbox)

    async def main() -> str:
        async with runtime_in(tmp_path, PROCESS_START, config=asked, nobody="pending") as runtime:
            await runtime.call("process.start", {"command": "sleep 100"})
            proposal = runtime.pending.list()[0].proposal
            assert proposal is not None and proposal.surroundings is not None
            return proposal.surroundings.sandbox

    assert run(main()).endswith("; network off")
