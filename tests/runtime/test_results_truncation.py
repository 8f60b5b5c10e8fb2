"""Long outputs: truncated, stored outside the project, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Attachment, Config, Result, Runtime, Tool
from holdfast.config.config import OutputConfig
from holdfast.tools.output_read import OUTPUT_READ_TOOL
from tests.runtime.support import approving, run, runtime_in


def _printing(text: str, **fields: Any) -> Tool:
    def execute(args: Any) -> str:
        return text

    return Tool(name="printing", execute=execute, effects=frozenset(), runs="inline").with_(**fields)


LINES = "\n".join(f"line {number}" for number in range(1, 5001))


@pytest.mark.spec("X7")
def test_a_read_keeps_its_head_and_a_stream_its_tail(tmp_path: Path) -> None:
    head = run(runtime_in(tmp_path, _printing(LINES)).call("printing"))
    assert head.output.startswith("line 1\nline 2\n")
    assert f"[Showing lines 1-2000 of 5000. Full output: output.read call={head.call_id}]" in head.output
    tail = run(runtime_in(tmp_path, _printing(LINES, keeps="tail")).call("printing"))
    assert tail.output.startswith("line 3001\n")
    assert "[Showing lines 3001-5000 of 5000." in tail.output


@pytest.mark.spec("X7")
def test_output_is_limited_to_fifty_kilobytes(tmp_path: Path) -> None:
    text = "\n".join("ü" * 500 for _ in range(100))
    result = run(runtime_in(tmp_path, _printing(text)).call("printing"))
    assert len(result.output.encode()) < 51200 + 200
    assert "(50.0KB limit)" in result.output


@pytest.mark.spec("X7")
def test_output_within_the_limits_is_unchanged(tmp_path: Path) -> None:
    text = "\n".join(["x" * 20] * 2000)
    result = run(runtime_in(tmp_path, _printing(text)).call("printing"))
    assert result.output == text
    assert "spill" not in result.metadata


@pytest.mark.spec("X7", "X14")
def test_the_model_can_read_stored_output(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path, _printing(LINES), OUTPUT_READ_TOOL, config=approving("output.read"))
    cut = run(runtime.call("printing"))
    back = run(runtime.call("output.read", {"call": cut.call_id, "offset": 4000, "limit": 3}))
    assert back.output.startswith("line 4000\nline 4001\nline 4002")
    assert "[Showing lines 4000-4002 of 5000. Use offset=4003 to continue.]" in back.output
    assert back.structured == {
        "call": cut.call_id,
        "offset": 4000,
        "lines": 3,
        "total_lines": 5000,
        "content": "line 4000\nline 4001\nline 4002",
    }
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"line 4999" in path.read_bytes()]
    assert kept
    assert not any(path.is_relative_to(tmp_path / "project") for path in kept)


@pytest.mark.spec("X14")
def test_reading_output_reports_what_is_wrong(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path, _printing(LINES), _printing("short", name="short"), OUTPUT_READ_TOOL)
    config = approving("output.read")
    runtime = runtime_in(tmp_path, _printing(LINES), _printing("short", name="short"), OUTPUT_READ_TOOL, config=config)
    whole = run(runtime.call("short"))
    cut = run(runtime.call("printing"))
    assert "No call 'nope'" in (run(runtime.call("output.read", {"call": "nope"})).error or "")
    assert "was not truncated" in (run(runtime.call("output.read", {"call": whole.call_id})).error or "")
    beyond = run(runtime.call("output.read", {"call": cut.call_id, "offset": 9999}))
    assert beyond.error == "Offset 9999 is beyond the end of the output (5000 lines in all)."


@pytest.mark.spec("X7")
def test_stored_output_is_bounded_and_the_notice_says_so(tmp_path: Path) -> None:
    config = Config(output=OutputConfig(max_spill=1000))
    result = run(runtime_in(tmp_path, _printing(LINES), config=config).call("printing"))
    assert "first 1000B" in result.output
    assert result.metadata["spilled_bytes"] == 1000


@pytest.mark.spec("X7")
def test_max_output_bytes_truncates_with_its_own_notice() -> None:
    config = Config(output=OutputConfig(max_output_bytes=10))
    result = run(Runtime(tools=[_printing("0123456789abcdef")], config=config).call("printing"))
    assert result.output == "0123456789\n[Output truncated - 6 bytes hidden]"


@pytest.mark.spec("T10a")
def test_attachments_are_unchanged(tmp_path: Path) -> None:
    picture = Attachment(kind="image", mime_type="image/png", data=b"\x89PNG\x00", name="dot.png")

    def execute(args: Any) -> Result:
        return Result(True, "a picture", attachments=(picture,))

    runtime = runtime_in(tmp_path, Tool(name="draw", execute=execute, effects=frozenset(), runs="inline"))
    result = run(runtime.call("draw"))
    assert result.attachments == (picture,)
    again = runtime.pending.result(result.call_id)
    assert again is not None
    assert again.attachments == (picture,)
