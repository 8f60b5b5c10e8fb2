"""`holdfast mcp servers`, and the tools of MCP servers on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.config.layers import load
from holdfast.factory.runtime import check_config
from tests.cli.command_line import Cli, Done
from tests.cli.mcp_servers import edit_server, serving
from tests.cli.terminal import Terminal
from tests.cli.test_app_startup import imported

__all__ = ["serving"]
_RUN = "import sys; from holdfast.cli.app import run; run(sys.argv[1:])"


@pytest.mark.spec("K1", "E1a")
def test_the_servers_are_started_and_shown_with_their_problems(serving: Cli) -> None:
    done = serving.run("mcp", "servers")
    assert done.code == 1, "one that is switched on is away"
    assert done.err == "", "what the table says is not said twice"
    head, little, broken, sleeping = done.out.splitlines()
    assert head.split() == ["server", "state", "transport", "tools", "details"]
    assert little.split()[:4] == ["little", "ready", "stdio", "2"]
    assert little.endswith("little 1.0; protocol 2025-11-25")
    assert broken.split()[:3] == ["broken", "away", "stdio"]
    assert broken.endswith("it exited with 3")
    assert sleeping.split() == ["sleeping", "off", "stdio"]


@pytest.mark.spec("K1")
def test_the_configuration_in_the_guide_is_valid(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()
    found: list[str] = []
    for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)):
        user = tmp_path / f"{number}.toml"
        user.write_text(text)
        config = load(root=None, is_trusted=lambda path, digest: False, user_file=user).config
        check_config(config)
        found += config.mcp.servers
    assert found == ["files", "tracker", "fetched", "fetched_too"]


@pytest.mark.spec("K1")
def test_without_servers_it_says_how_to_configure_one(cli: Cli) -> None:
    done = cli.run("mcp", "servers")
    assert done.code == 0
    assert "[mcp.servers.files]" in done.out
    assert cli.run("mcp", "review").code == 0


@pytest.mark.spec("K1", "E1a")
def test_its_tools_are_listed_and_shown_with_the_others(serving: Cli) -> None:
    listed = serving.run("tools")
    assert listed.code == 0
    assert "mcp:little:echo" in listed.out and "calculator" in listed.out
    assert "'mcp.broken': it exited with 3" in listed.err
    shown = serving.run("tools", "mcp:little:echo", "--json")
    assert shown.json["name"] == "mcp:little:echo"
    assert shown.err == "", "only the server of that tool was started"


@pytest.mark.spec("K1", "E1a")
def test_words_are_parsed_by_the_schema_of_the_server(serving: Cli) -> None:
    done = serving.run("call", "mcp:little:echo", "text=5", "count=5")
    assert (done.code, done.out) == (0, '{"text": "5", "count": 5}\n'), done.err
    assert done.err == "mcp:little warning: careful ‹\\x1b›[31m\n", "a warning in its log, and nothing less"
    by_api_name = serving.run("call", "mcp__little__echo", "text=x", "--json")
    assert by_api_name.json["output"] == '{"text": "x"}'


@pytest.mark.spec("K1")
def test_a_call_that_needs_approval_is_pending_and_runs_when_approved(serving: Cli) -> None:
    serving.configure(_config_of(serving).replace('["mcp:little:*"]', "[]"))
    waiting = serving.make_pending("mcp:little:echo", "text=later")
    approved = serving.run("approve", waiting)
    assert (approved.code, approved.out) == (0, '{"text": "later"}\n')


def _config_of(cli: Cli) -> str:
    return Path(cli.env["XDG_CONFIG_HOME"], "holdfast", "config.toml").read_text()


@pytest.mark.spec("K1", "E1a")
def test_completing_a_name_and_calling_a_built_in_start_no_server_and_load_no_sdk(serving: Cli) -> None:
    def complete(line: str) -> Done:
        words = str(len(line.split()) - 1)
        env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": words}
        return serving.run(env=env)

    names = complete("holdfast mcp review li")
    assert "little" in names.out
    tools = complete("holdfast call calc")
    assert "calculator" in tools.out and tools.err == ""
    modules = imported(serving, _RUN, "call", "calculator", "expression=1+1")
    assert not {name for name in modules if name == "mcp" or name.startswith(("mcp.", "holdfast.mcp", "click"))}


@pytest.mark.spec("K1", "E1a")
def test_the_doctor_says_which_servers_are_configured_and_starts_none(serving: Cli) -> None:
    done = serving.run("--set", "sandbox.mode=off", "doctor", "--json")
    (found,) = [line for line in done.lines if line["name"] == "mcp"]
    assert found["status"] == "ok"
    assert found["text"].startswith("configured: little, broken, sleeping (1 disabled); ")


@pytest.mark.spec("K1")
def test_a_server_that_is_not_ready_in_time_says_so(serving: Cli) -> None:
    serving.configure('[mcp.servers.slow]\ncommand = "/bin/sleep"\nargs = ["60"]\nstart_timeout = 1.0\n')
    done = serving.run("mcp", "servers")
    assert done.code == 1
    assert "not ready after 1 s" in done.out
    assert "not ready after 1 s" in serving.run("mcp", "servers", "--json").json["reason"]


@pytest.mark.spec("K1", "O1")
def test_the_texts_of_a_server_are_escaped_once(serving: Cli) -> None:
    edit_server(serving, '"name": "little", "version": "1.0"', '"name": "li\\x1b[2Jttle", "version": "1.0\\u200b"')
    little = serving.run("mcp", "servers", "little").out
    assert "li‹\\x1b›[2Jttle 1.0‹\\u{200b}›; protocol" in little
    loud = 'echo "‹a" >&2; read line; exit 3'
    serving.configure(f'[mcp.servers.loud]\ncommand = "/bin/sh"\nargs = ["-c", {json.dumps(loud)}]\n')
    for done in (serving.run("mcp", "servers"), serving.run("tools"), serving.run("call", "mcp:loud:x")):
        assert "‹\\u{2039}›a" in done.out + done.err


@pytest.mark.spec("K1", "O1")
def test_a_warning_while_servers_start_has_its_own_line(serving: Cli) -> None:
    with Terminal(serving, "tools", columns=200) as person:
        person.expect("waiting for MCP servers")
        person.expect("Warning: Tool source 'mcp.broken'")
        assert person.finish() == 0
        assert re.search("other tool sources…(\r\x1b\\[K)+Warning: ", person.text)


@pytest.mark.spec("K1", "K2")
def test_names_of_server_tools_in_the_configuration_cause_no_warning(serving: Cli) -> None:
    serving.configure(_config_of(serving) + '\n[tools]\nallow = ["mcp:little:echo", "mcp__little__ask", "mcp:no:x"]\n')
    done = serving.run("config", "check", "--json")
    (warning,) = done.json["warnings"]
    assert "'mcp:no:x'" in warning


@pytest.mark.spec("K1", "E1a")
def test_a_tool_of_an_unreachable_server_is_reported_with_the_reason(serving: Cli) -> None:
    for words in (("call", "mcp:broken:x"), ("tools", "mcp:broken:x"), ("call", "mcp__broken__x")):
        done = serving.run(*words)
        assert done.code == 1
        assert "its server 'broken' is away (it exited with 3)" in done.err
        assert "See `holdfast mcp servers broken`." in done.err
    off = serving.run("call", "mcp:sleeping:x")
    assert off.sentence == "Error: There is no tool 'mcp:sleeping:x': its server 'sleeping' is disabled."


@pytest.mark.spec("K1")
def test_a_server_command_that_contains_arguments_gets_a_hint(serving: Cli) -> None:
    serving.configure('[mcp.servers.glued]\ncommand = "npx -y foo"\n')
    assert "put its arguments into `args`" in serving.run("mcp", "servers").out


@pytest.mark.spec("K1")
def test_listing_shows_the_tools_of_an_eliciting_server_without_asking(serving: Cli) -> None:
    edit_server(
        serving,
        '        return {"tools": definitions()}',
        '        put(id="early", method="elicitation/create", params={"message": "Who?", "requestedSchema":'
        ' {"type": "object", "properties": {}}})\n'
        '        return {"tools": definitions() if "elicitation" in able else []}',
    )
    edit_server(serving, '    if method == "initialize":', '    if method == "initialize":\n'
            '        able.update(params["capabilities"])')  # fmt: skip
    edit_server(serving, "def put(", "able: dict[str, Any] = {}\n\n\ndef put(")
    assert serving.run("mcp", "servers", "little", "--json").json["tools"] == 2
    assert serving.run("call", "mcp:little:echo", "text=x").code == 0
    with Terminal(serving, "tools", "mcp:little:echo", "--json", columns=400) as person:
        assert person.finish() == 0
        assert "Who?" not in person.text


@pytest.mark.spec("K1", "E1a")
def test_ctrl_c_while_servers_start_says_that_nothing_was_changed(serving: Cli) -> None:
    serving.configure('[mcp.servers.slow]\ncommand = "/bin/sleep"\nargs = ["60"]\n')
    with Terminal(serving, "mcp", "servers", columns=200) as person:
        person.expect("waiting for MCP servers")
        person.press(b"\x03")
        person.expect("\nError: Interrupted. Nothing was changed.\n")
        assert person.finish() == 130


@pytest.mark.spec("K1", "E1a")
def test_a_writable_path_that_a_server_cannot_have_is_a_configuration_error(cli: Cli) -> None:
    cli.configure('[mcp.servers.notes]\ncommand = "x"\nwritable = ["$root/notes"]\n')
    done = cli.run("config", "check")
    assert done.code == 2
    assert "mcp.servers.notes.writable contains '$root/notes'" in done.sentence
