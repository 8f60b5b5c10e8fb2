"""Output of commands: truncated for the model, stored byte for byte, in bounded memory, redacted."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Result, Runtime, Tool
from holdfast.contract.command import Command, CommandResult
from holdfast.contract.context import Context
from holdfast.contract.event import Output
from holdfast.tools.output_read import OUTPUT_READ_TOOL
from tests.runtime.command_helpers import shell_in
from tests.runtime.support import run


def _call(runtime: Runtime, command: str, **args: Any) -> Result:
    async def main() -> Result:
        async with runtime:
            return await runtime.call("shell.exec", {"command": command, **args})

    return run(main(), 100)


def _ran(folder: Path, command: Command, **options: Any) -> CommandResult:
    """The result of `ctx.sandbox.run` in a tool."""
    seen: list[CommandResult] = []

    async def execute(args: Any, ctx: Context) -> str:
        seen.append(await ctx.sandbox.run(command))
        return ""

    async def main() -> None:
        async with shell_in(folder, "off", Tool(name="probe", execute=execute), **options) as runtime:
            result = await runtime.call("probe")
            assert result.success, result

    run(main(), 100)
    return seen[0]


def _bash(text: str, **options: Any) -> Command:
    return Command(argv=("/bin/bash", "-c", text), **options)


def _spill(runtime: Runtime, result: Result) -> Path:
    assert runtime.ledger is not None
    return runtime.ledger.blobs.path(cast(str, result.metadata["spill"]))


@pytest.mark.spec("X7", "B4")
def test_the_last_2000_lines_are_shown_and_the_rest_can_be_read(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path, "off", OUTPUT_READ_TOOL)

    async def main() -> tuple[Result, Result]:
        async with runtime:
            cut = await runtime.call("shell.exec", {"command": "seq 5000"})
            return cut, await runtime.call("output.read", {"call": cut.call_id, "offset": 17, "limit": 2})

    cut, back = run(main())
    assert cut.output == "\n".join(map(str, range(3001, 5001))) + (
        f"\n\n[Showing lines 3001-5000 of 5000. Full output: output.read call={cut.call_id}]"
    )
    assert cast(Any, cut.structured)["total_lines"] == 5000
    assert back.output.startswith("17\n18\n")


@pytest.mark.parametrize("lines", [1999, 2000, 2001])
@pytest.mark.spec("X7")
def test_the_limit_in_lines_is_exact(tmp_path: Path, lines: int) -> None:
    result = _call(shell_in(tmp_path), f"seq {lines}")
    assert cast(Any, result.structured)["truncated"] is (lines > 2000)
    assert ("Showing lines 2-2001 of 2001" in result.output) is (lines > 2000)


@pytest.mark.spec("X7", "X8")
def test_invalid_utf8_is_stored_unchanged_and_shown_with_replacement_characters(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path)
    program = r"for i in $(seq 3000); do printf 'a\xff\xc3\x00\xe2\x82\xac\r\n'; done"
    result = _call(runtime, program)
    assert _spill(runtime, result).read_bytes() == b"a\xff\xc3\x00\xe2\x82\xac\r\n" * 3000
    assert result.output.startswith("a�" + "�\0€\r\n")
    assert cast(Any, result.structured)["total_bytes"] == 9 * 3000


@pytest.mark.spec("X7", "X8")
def test_a_line_longer_than_the_limit_is_cut_between_characters(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path)
    result = _call(runtime, "head -c 30000000 /dev/zero | tr '\\0' x; printf '\\xe2\\x82\\xac%.0s' $(seq 50000)")
    assert result.output.startswith("€")
    assert "[Showing last 50.0KB of line 1. Full output:" in result.output
    assert cast(Any, result.structured)["total_bytes"] == 30_150_000
    assert _spill(runtime, result).stat().st_size == 30_150_000


@pytest.mark.spec("X7", "X8")
def test_the_spill_is_bounded_and_all_output_is_counted(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path, output={"max_spill": 1_000_000})
    result = _call(runtime, "yes € | head -c 40000000")
    assert _spill(runtime, result).read_bytes() == ("€\n" * 250_000).encode()
    assert f"output.read call={result.call_id}, first 976.6KB]" in result.output
    structured = cast(Any, result.structured)
    assert (structured["total_bytes"], structured["total_lines"]) == (40_000_000, 10_000_000)


@pytest.mark.spec("X8", "X7")
def test_large_output_is_stored_in_bounded_memory(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path, output={"max_spill": 1 << 30})

    async def main() -> tuple[Result, int]:
        async with runtime:
            await runtime.call("shell.exec", {"command": "yes | head -c 2000000"})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result = await runtime.call("shell.exec", {"command": "yes | head -c 200000000"})
            return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    result, grown = run(main(), 100)
    assert _spill(runtime, result).stat().st_size == 200_000_000
    assert grown < 16 * 1024


@pytest.mark.spec("X7")
def test_without_a_ledger_the_notice_says_what_is_cut_and_nothing_is_stored(tmp_path: Path) -> None:
    result = _call(shell_in(tmp_path, ledger=None), "seq 5000")
    assert result.output.endswith("5000\n\n[Showing lines 3001-5000 of 5000]")
    assert "spill" not in result.metadata


@pytest.mark.spec("X7")
def test_an_output_that_cannot_be_stored_is_still_shown(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path)
    assert runtime.ledger is not None
    runtime.ledger.blobs.folder.parent.mkdir(exist_ok=True)
    runtime.ledger.blobs.folder.write_text("a file where the folder should be")
    assert "Full output: could not be kept]" in _call(runtime, "seq 500000").output


@pytest.mark.spec("X7")
def test_trailing_whitespace_is_dropped_and_not_counted(tmp_path: Path) -> None:
    result = _call(shell_in(tmp_path), r"seq 1999; printf 'last \t\n\n\n\n'")
    assert result.output.endswith("1999\nlast")
    assert "Showing" not in result.output


@pytest.mark.spec("B4")
def test_stdout_and_stderr_are_in_the_order_they_were_printed(tmp_path: Path) -> None:
    result = _call(shell_in(tmp_path), "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    assert result.output == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3"


@pytest.mark.spec("B4", "T7")
def test_a_tool_can_separate_stdout_and_stderr_and_give_input(tmp_path: Path) -> None:
    ran = _ran(tmp_path, _bash("cat; echo oops >&2; exit 4", stdin=b"given" * 50_000, merged=False))
    assert (ran.code, ran.error_output) == (4, "oops")
    assert ran.total_bytes == 250_000


@pytest.mark.parametrize(("keeps", "shown"), [("head", "a€"), ("tail", "€d")])
@pytest.mark.spec("X7", "X8")
def test_a_tool_can_choose_head_or_tail_and_the_size(tmp_path: Path, keeps: Any, shown: str) -> None:
    ran = _ran(tmp_path, _bash("printf 'a€€€€d'", keeps=keeps, max_bytes=6))
    assert (ran.output, ran.truncated, ran.spill) == (shown, True, None)


@pytest.mark.spec("X7")
def test_the_head_of_a_large_output_is_kept(tmp_path: Path) -> None:
    ran = _ran(tmp_path, _bash("seq 10000000", keeps="head"))
    assert ran.output.startswith("1\n2\n")
    assert (ran.output_lines, ran.total_lines) == (2000, 10_000_001)


@pytest.mark.spec("X8", "B4")
def test_output_is_streamed_while_the_command_runs(tmp_path: Path) -> None:
    async def main() -> tuple[str, Result]:
        async with shell_in(tmp_path) as runtime:
            with runtime.subscribe(100_000) as events:
                program = r"printf 'gr\xc3'; sleep 0.05; printf '\xbc\xdf'"
                result = await runtime.call("shell.exec", {"command": program})
                texts = [event.text for event in events.take() if isinstance(event, Output)]
            return "".join(texts), result

    streamed, result = run(main())
    assert (streamed, result.output) == ("grü", "grü�")


@pytest.mark.spec("X8")
def test_an_endless_stream_is_held_in_bounded_memory(tmp_path: Path) -> None:
    async def main() -> tuple[Result, int]:
        async with shell_in(tmp_path) as runtime:
            with runtime.subscribe(10):
                await runtime.call("shell.exec", {"command": "yes | head -c 2000000"})
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                result = await runtime.call("shell.exec", {"command": "yes | head -c 30000000"})
                return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    result, grown = run(main(), 100)
    assert cast(Any, result.structured)["total_bytes"] == 30_000_000
    assert grown < 16 * 1024


@pytest.mark.spec("X7", "X8")
def test_a_known_secret_is_redacted_in_output_stream_and_spill(tmp_path: Path) -> None:
    runtime = shell_in(tmp_path)
    runtime.redactor.add("token", "hunter2-hunter2")
    program = "for i in $(seq 40000); do echo hunter2-hunter2 $i; done"

    async def main() -> tuple[Result, str]:
        async with runtime:
            with runtime.subscribe(100_000) as events:
                result = await runtime.call("shell.exec", {"command": program})
                return result, "".join(event.text for event in events.take() if isinstance(event, Output))

    result, streamed = run(main(), 100)
    kept = _spill(runtime, result).read_text()
    assert kept.count("[secret token]") == 40_000
    for text in (kept, streamed, result.text):
        assert "hunter2" not in text
        assert "[secret token] 40000" in text


@pytest.mark.spec("X7")
def test_a_secret_at_the_cut_is_not_partly_shown(tmp_path: Path) -> None:
    secret = "s3cr3t-" + "z" * 400
    runtime = shell_in(tmp_path)
    runtime.redactor.add("token", secret)
    zeros = "head -c {} /dev/zero | tr '\\0' x"
    result = _call(runtime, f"{zeros.format(300_000)}; printf %s {secret}; {zeros.format(51_200 - 150)}")
    assert "zzzz" not in result.text


def _read_back(folder: Path, command: str, offset: int) -> tuple[Result, Result]:
    async def main() -> tuple[Result, Result]:
        async with shell_in(folder, "off", OUTPUT_READ_TOOL) as runtime:
            cut = await runtime.call("shell.exec", {"command": command})
            return cut, await runtime.call("output.read", {"call": cut.call_id, "offset": offset})

    return run(main())


@pytest.mark.parametrize("after", ["", "; echo; echo"])
@pytest.mark.spec("X7", "X14")
def test_reading_the_spill_counts_the_lines_that_the_notice_named(tmp_path: Path, after: str) -> None:
    cut, back = _read_back(tmp_path, f"seq 5000{after}", 4999)
    assert "of 5000." in cut.output
    assert back.output == "4999\n5000"
    assert cast(Any, back.structured)["total_lines"] == 5000
    _, beyond = _read_back(tmp_path, f"seq 5000{after}", 5001)
    assert beyond.error == "Offset 5001 is beyond the end of the output (5000 lines in all)."


@pytest.mark.parametrize(
    ("last", "notice"),
    [
        ("", "[Showing the first 50.0KB of line 1 (at least 97.7KB long) of 1.]"),
        ("; echo; echo x", "[Showing the first 50.0KB of line 1 (97.7KB long) of 2. Use offset=2 to continue.]"),
    ],
)
@pytest.mark.spec("X7", "X14")
def test_a_line_too_long_to_show_is_read_truncated_and_ends_the_reading(tmp_path: Path, last: str, notice: str) -> None:
    _, back = _read_back(tmp_path, f"head -c 100000 /dev/zero | tr '\\0' x{last}", 1)
    assert back.output == "x" * 51200 + f"\n\n{notice}"
    assert cast(Any, back.structured)["lines"] == 1
