"""`holdfast chat cancel`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, Running, start


@pytest.mark.spec("E1c")
def test_cancel_stops_the_one_process_that_advances_a_document(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$default", "shell.exec"]\n')
    document = start(cli, "run `echo begun; sleep 60`")
    assert f"{NAME} is not being advanced." in cli.run("chat", "cancel", NAME).err
    assert cli.run("chat", "cancel", "--json").json == {"path": None, "pid": None, "told": False}
    with Running(cli, "chat", NAME, "--json") as running:
        running.expect('"text":"begun\\n"')
        busy = cli.run("chat", NAME)
        assert busy.code == 1 and f"process {running.process.pid}" in busy.sentence and "chat cancel" in busy.sentence
        assert cli.run("chat", "cancel").code == 0
        assert running.finish() == 130
        assert '"kind":"cancelled"' in running.text and "Traceback" not in running.text
    assert "(error)" in document.read_text()
