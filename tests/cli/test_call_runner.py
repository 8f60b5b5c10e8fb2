"""Printing the result of a call: streams, attachments, exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.call_runner import show_result
from holdfast.contract.enums import Failure, State
from holdfast.contract.result import Attachment, Result

pytestmark = pytest.mark.spec("E1a")


def test_the_output_goes_to_standard_output_and_attachments_are_named_on_standard_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = Attachment(kind="image", mime_type="image/png", data=b"123", name="a\x1b.png")
    assert show_result(Result(True, "done", attachments=(picture,)), as_json=False, state=tmp_path) == 0
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    path = tmp_path / "attachments" / f"{picture.digest[:16]}-a.png"
    assert shown.err == f"Saved 'a‹\\x1b›.png' (image/png, 3B): {path}\n"
    assert path.read_bytes() == b"123"


def test_an_error_goes_to_standard_error_and_gives_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Result(False, error="no such file", state=State.FAILED, failure=Failure.TOOL_ERROR)
    assert show_result(failed, as_json=False) == failed.exit_code == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "Error: no such file\n")
