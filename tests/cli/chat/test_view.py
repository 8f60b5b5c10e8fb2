"""What `holdfast chat` prints about the events of a run."""

from __future__ import annotations

import pytest

from holdfast.cli.chat.view import TerminalView
from holdfast.contract.event import ServerLogged
from tests.cli.mcp_servers import serving

__all__ = ["serving"]


@pytest.mark.spec("K1")
def test_warnings_that_a_server_logs_are_printed_in_a_chat(capsys: pytest.CaptureFixture[str]) -> None:
    view = TerminalView()
    for level in ("debug", "info", "notice", "warning", "emergency"):
        view.runtime(ServerLogged("", "mcp:a", level, f"{level} \x1b[2J"))
    said = capsys.readouterr().err
    assert said == "mcp:a warning: warning ‹\\x1b›[2J\nmcp:a emergency: emergency ‹\\x1b›[2J\n"
