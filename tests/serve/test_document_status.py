"""The documents of a project as the daemon lists them."""

from __future__ import annotations

import pytest

from tests.serve.served import Daemon


@pytest.mark.spec("E3a")
def test_the_daemon_lists_documents_as_the_command_line_does(served: Daemon) -> None:
    served.cli.run("chat", "new", "a.chat", "-m", 'write "x" to x.txt')
    served.cli.run("chat", "a.chat")
    (here,) = served.local().get("/api/documents").json()["documents"]
    (there,) = served.cli.run("chat", "status", "--json").lines
    assert here == there
