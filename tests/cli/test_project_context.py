"""Opening the project: `--set`, the servers of a tool, and why a server is not ready."""

from __future__ import annotations

import pytest

from holdfast.cli.errors import UsageProblem
from holdfast.cli.project_context import is_builtin, read_flags, servers_for, unready_reason, whoami
from holdfast.config.config import McpServer
from holdfast.mcp.client.connection import ServerStatus

pytestmark = pytest.mark.spec("E1a")


def test_set_reads_json_and_takes_anything_else_as_text() -> None:
    assert read_flags(("tools.profile=full", "approval.require_approval=false", 'tools.deny=["web.*"]', "a==")) == {
        "tools.profile": "full",
        "approval.require_approval": False,
        "tools.deny": ["web.*"],
        "a": "=",
    }


@pytest.mark.parametrize("given", ["tools.profile", "=full", ""])
def test_set_without_an_option_or_a_value_is_refused(given: str) -> None:
    with pytest.raises(UsageProblem, match=r"^Cannot read --set '.*'\. Use OPTION=VALUE, such as "):
        read_flags((given,))


def test_a_tool_names_the_servers_that_may_have_it() -> None:
    assert is_builtin("file.read") and not is_builtin("mcp:files:read")
    assert servers_for("file.read") == ()
    assert servers_for("mcp:files:read") == ("files",)


def test_a_server_that_is_not_ready_has_a_reason() -> None:
    slow = ServerStatus(name="slow", state="starting", reason="")
    assert unready_reason(slow, McpServer(command="slow", start_timeout=2.5)) == "not ready after 2.5 s"
    away = ServerStatus(name="away", state="away", reason="not found")
    assert unready_reason(away, McpServer(command="npx server")).startswith("not found; `command` is only the program")
    assert unready_reason(away, McpServer(command="npx")) == "not found"


def test_an_answer_is_recorded_under_the_given_name_or_the_user_name() -> None:
    assert whoami("ann") == "cli:ann"
    assert whoami().startswith("cli:") and whoami() != "cli:"
