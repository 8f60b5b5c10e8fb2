"""`holdfast mcp install`: one entry in a client's configuration file, confirmed first."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal

PROJECT_FILES = {
    "claude": (".mcp.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "zed": (".zed/settings.json", "context_servers"),
}


def home(cli: Cli) -> Path:
    folder = Path(cli.env["HOME"])
    folder.mkdir(exist_ok=True)
    return folder


def places(cli: Cli) -> dict[str, str]:
    return {name: cli.env[name] for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}


@pytest.mark.spec("K3a", "E1a")
@pytest.mark.parametrize("client", PROJECT_FILES)
def test_the_entry_is_written_where_the_client_looks_and_the_second_time_there_is_nothing_to_do(
    cli: Cli, client: str
) -> None:
    done = cli.run("mcp", "install", client, "--yes", "--json")
    assert done.code == 0, done.err
    assert "own tools (its shell, its file editing) stay ungoverned" in done.json["ungoverned"]
    name, section = PROJECT_FILES[client]
    file = cli.project / name
    assert done.json["path"] == str(file)
    assert done.json["changed"] is True
    entry = json.loads(file.read_text())[section]["holdfast"]
    assert entry == done.json["entry"]
    assert Path(entry["command"]).is_absolute() and os.access(entry["command"], os.X_OK)
    folder = {"cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}"}.get(client, str(cli.project))
    assert entry["args"][-3:] == ["-C", folder, "mcp"]
    again = cli.run("mcp", "install", client)
    assert (again.code, again.err) == (0, f"Nothing to do: {file} is already set up.\n")


@pytest.mark.spec("K3a")
def test_the_written_command_starts_a_server(cli: Cli) -> None:
    written = cli.run("mcp", "install", "claude", "--yes")
    assert "Note: Claude Code's own tools (its shell, its file editing) stay ungoverned: " in written.err
    entry = json.loads((cli.project / ".mcp.json").read_text())["mcpServers"]["holdfast"]
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        },
    }  # fmt: skip
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(hello).encode() + b"\n", capture_output=True, check=True, env=cli.env, cwd="/", timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"]


@pytest.mark.spec("K3a")
def test_comments_other_servers_and_the_mode_of_the_file_stay(cli: Cli) -> None:
    file = cli.project / ".vscode" / "mcp.json"
    file.parent.mkdir()
    servers = '    "servers": {\n        "other": {"command": "x"}, // keep me\n    },'
    before = f'{{\n    // ours\n    "inputs": [],\n{servers}\n}}\n'
    file.write_text(before)
    file.chmod(0o640)
    done = cli.run("mcp", "install", "vscode", "--yes")
    assert done.code == 0
    after = file.read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert "    // ours" in after and "// keep me" in after
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"], "no file of ours is left"
    assert not any(line.startswith("-") for line in done.out.splitlines()[2:]), "the diff takes nothing away"


@pytest.mark.spec("K3a")
def test_keys_the_user_added_stay_in_the_users_file_but_not_in_a_projects(cli: Cli) -> None:
    before = '{"mcpServers": {"holdfast": {"command": "/old", "url": "x", "env": {"A": "1"}}}}'
    brought = cli.project / ".mcp.json"
    brought.write_text(before)
    assert cli.run("mcp", "install", "claude", "--yes").code == 0
    entry = json.loads(brought.read_text())["mcpServers"]["holdfast"]
    assert set(entry) == {"type", "command", "args", "env"}
    assert "A" not in entry["env"]
    file = home(cli) / ".claude.json"
    file.write_text(before)
    assert cli.run("mcp", "install", "claude", "--user", "--yes").code == 0
    entry = json.loads(file.read_text())["mcpServers"]["holdfast"]
    assert entry["env"] == {"A": "1", **places(cli)}
    assert entry["command"] != "/old" and "url" not in entry


@pytest.mark.spec("K3a")
def test_nothing_is_written_without_a_yes(cli: Cli) -> None:
    done = cli.run("mcp", "install", "cursor")
    assert done.code == 2
    assert '+    "holdfast": {' in done.out
    assert done.err.splitlines()[-1].endswith("was not changed. Read the diff, then add --yes.")
    with Terminal(cli, "mcp", "install", "cursor", columns=200) as person:
        person.expect("Cursor will start `")
        person.expect("? [y/N] ")
        person.type("")
        person.expect("was not changed.")
        assert person.finish() == 3
        assert "Error" not in person.text
    assert not (cli.project / ".cursor").exists()
    with Terminal(cli, "mcp", "install", "cursor", columns=200) as person:
        person.expect("? [y/N] ")
        person.type("y")
        person.expect("Done.")
        assert person.finish() == 0
    assert (cli.project / ".cursor" / "mcp.json").exists()


@pytest.mark.spec("K3a")
def test_a_file_that_changes_meanwhile_is_left_alone(cli: Cli) -> None:
    file = cli.project / ".mcp.json"
    file.write_text("{}")
    with Terminal(cli, "mcp", "install", "claude", columns=200) as person:
        person.expect("? [y/N] ")
        file.write_text('{"mcpServers": {"new": {}}}')
        person.type("y")
        person.expect("changed meanwhile. Run the command again.")
        assert person.finish() == 2
    assert file.read_text() == '{"mcpServers": {"new": {}}}'
    assert sorted(path.name for path in cli.project.iterdir()) == [".git", ".mcp.json"]


@pytest.mark.spec("K3a")
@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 5}', "\xff"])
def test_a_file_that_cannot_be_parsed_is_left_alone_and_the_entry_is_printed(cli: Cli, text: str) -> None:
    file = cli.project / ".mcp.json"
    file.write_bytes(text.encode("latin-1"))
    done = cli.run("mcp", "install", "claude", "--yes")
    assert done.code == 2
    assert file.read_bytes() == text.encode("latin-1")
    if text != "\xff":
        assert '"holdfast": {' in done.err and "Add the entry yourself" in done.err


@pytest.mark.spec("K3a")
@pytest.mark.parametrize("target", [".git/hooks/post-checkout", "package.json", "../home/.bashrc", "nowhere"])
def test_in_a_project_nothing_is_written_through_a_link(cli: Cli, target: str) -> None:
    (cli.project / ".git" / "hooks").mkdir()
    home(cli)
    file = cli.project / target
    if target != "nowhere":
        file.write_text("{}")
    (cli.project / ".mcp.json").symlink_to(target)
    done = cli.run("mcp", "install", "claude", "--yes")
    assert done.code == 2
    assert f".mcp.json is a link to {file.resolve()}, and in a project links are not followed" in done.sentence
    assert not file.exists() if target == "nowhere" else file.read_text() == "{}"


@pytest.mark.spec("K3a")
def test_in_a_project_a_folder_that_is_a_link_is_refused_as_well(cli: Cli) -> None:
    hooks = cli.project / ".git" / "hooks"
    hooks.mkdir()
    (cli.project / ".cursor").symlink_to(".git/hooks")
    done = cli.run("mcp", "install", "cursor", "--yes")
    assert done.code == 2
    assert f".cursor is a link to {hooks}" in done.sentence
    assert list(hooks.iterdir()) == []


@pytest.mark.spec("K3a")
def test_a_link_of_the_person_is_followed_within_the_home_and_shown(cli: Cli) -> None:
    real = home(cli) / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    file = home(cli) / ".claude.json"
    file.symlink_to(real)
    with Terminal(cli, "mcp", "install", "claude", "--user", columns=400) as person:
        person.expect(f"+++ {real}")
        person.expect(f"{file} is a link to {real}, which is the file that changes.")
        person.expect(f"Write this into {real}? [y/N] ")
        person.type("y")
        assert person.finish() == 0
    assert file.is_symlink() and "holdfast" in real.read_text()
    outside = cli.project.parent / "outside"
    outside.mkdir()
    (home(cli) / ".cursor").symlink_to(outside)
    assert cli.run("mcp", "install", "cursor", "--user", "--yes").code == 2
    assert list(outside.iterdir()) == []


@pytest.mark.spec("K3a")
def test_a_fifo_in_place_of_the_file_does_not_block(cli: Cli) -> None:
    os.mkfifo(cli.project / ".mcp.json")
    done = cli.run("mcp", "install", "claude", "--yes")
    assert done.code == 2
    assert ": not a regular file" in done.sentence


@pytest.mark.spec("K3a")
def test_for_all_projects_it_is_the_file_in_the_home(cli: Cli) -> None:
    file = home(cli) / ".claude.json"
    file.write_text('{\n  "numStartups": 3\n}\n')
    done = cli.run("mcp", "install", "claude", "--user", "--yes")
    assert done.code == 0, done.err
    entry = json.loads(file.read_text())["mcpServers"]["holdfast"]
    assert "-C" not in entry["args"], "the client starts it where it works"
    code = Path(cli.env["XDG_CONFIG_HOME"], "Code", "User", "mcp.json")
    if sys.platform == "linux":
        assert cli.run("mcp", "install", "vscode", "--user", "--yes").code == 0
        assert "holdfast" in json.loads(code.read_text())["servers"]
    elsewhere = cli.run("mcp", "install", "claude", cwd=home(cli))
    assert elsewhere.code == 2
    assert "There is no project here" in elsewhere.sentence


@pytest.mark.spec("K3a")
def test_a_token_goes_into_a_private_file_of_the_person_and_is_not_shown(cli: Cli) -> None:
    refused = cli.run("mcp", "install", "zed", "--http", "--yes")
    assert refused.code == 2
    assert "the token would be in it" in refused.sentence
    file = home(cli) / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {\n    "a": {"headers": {"Authorization": "Bearer other-secret"}}\n  }\n}\n')
    file.chmod(0o644)
    done = cli.run("mcp", "install", "cursor", "--user", "--http", "--yes")
    assert done.code == 0, done.err
    entry = json.loads(file.read_text())["mcpServers"]["holdfast"]
    token = entry["headers"]["Authorization"].removeprefix("Bearer ")
    assert len(token) > 40
    assert entry["url"] == "http://127.0.0.1:4633/mcp"
    assert token not in done.out + done.err and "other-secret" not in done.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = cli.run("mcp", "install", "zed", "--user", "--http", "--print")
    assert (printed.code, token in printed.out) == (0, False)
    assert token in cli.run("mcp", "install", "zed", "--user", "--http", "--print", "--show-token").out
    assert not (Path(cli.env["XDG_CONFIG_HOME"]) / "zed").exists(), "printing writes nothing"


@pytest.mark.spec("K3a")
def test_keys_the_user_added_stay_byte_for_byte(cli: Cli) -> None:
    file = home(cli) / ".claude.json"
    theirs = '"big": 1e999, "odd\\ud800": "\\ud800", "deep": {"a": [1.50, /* why */ 2]}, "big": -0'
    file.write_text('{"mcpServers": {"holdfast": {"command": "/old", ' + theirs + "}}}")
    done = cli.run("mcp", "install", "claude", "--user", "--yes", "--json")
    assert done.code == 0, done.err
    for member in ('"big": 1e999', '"odd\\ud800": "\\ud800"', '"deep": {"a": [1.50, /* why */ 2]}', '"big": -0'):
        assert member in file.read_text()
    assert '"command": "/old"' not in file.read_text()
    again = cli.run("mcp", "install", "claude", "--user")
    assert again.err.startswith("Nothing to do")


@pytest.mark.spec("K3a")
@pytest.mark.parametrize("env", ['{"A": 1e999}', '{"A": "\\ud800"}', "[]"])
def test_variables_that_cannot_be_written_back_are_left_alone(cli: Cli, env: str) -> None:
    file = home(cli) / ".claude.json"
    before = '{"mcpServers": {"holdfast": {"command": "/old", "env": ' + env + "}}}"
    file.write_text(before)
    done = cli.run("mcp", "install", "claude", "--user", "--yes")
    assert done.code == 2
    assert '"holdfast": {' in done.err and "Add the entry yourself" in done.err
    assert file.read_text() == before


@pytest.mark.spec("K3a")
def test_the_client_starts_it_with_this_configuration_and_ledger(cli: Cli) -> None:
    done = cli.run("mcp", "install", "zed", "--yes", "--json")
    assert done.json["entry"]["env"] == places(cli)
    plain = {name: value for name, value in cli.env.items() if not name.startswith("XDG_")}
    assert "env" not in Cli(cli.project, plain).run("mcp", "install", "zed", "--yes", "--json").json["entry"]
    strange = cli.run("mcp", "install", "zed", "--yes", env={"XDG_STATE_HOME": f"{cli.env['HOME']}/\udcff"})
    assert strange.code == 2
    assert "is not UTF-8" in strange.sentence


@pytest.mark.spec("K3a", "E1a")
def test_json_reports_the_change_and_how_to_apply_it(cli: Cli) -> None:
    done = cli.run("mcp", "install", "claude", "--json")
    assert done.code == 2
    assert done.json["changed"] is False
    assert '+    "holdfast": {' in done.json["diff"]
    assert done.err.endswith("was not changed. Read the diff, then add --yes.\n")
    assert not (cli.project / ".mcp.json").exists()
    printed = cli.run("mcp", "install", "claude", "--user", "--http", "--print")
    assert printed.err.endswith("The token is left out. Use --show-token to include it.\n")


@pytest.mark.spec("K3a", "E1a")
def test_options_that_conflict_or_have_no_effect_are_usage_errors(cli: Cli) -> None:
    missing = cli.run("mcp", "install")
    assert missing.code == 2
    assert missing.sentence.isprintable() and missing.sentence.isascii()
    assert "claude, cursor, vscode, zed" in missing.sentence
    for words in (("--port", "5"), ("--show-token",), ("--token-file", "x")):
        for command in (("mcp", "install", "claude"), ("mcp", "--stdio")):
            done = cli.run(*command, *words, stdin=b"")
            assert done.code == 2
            assert done.sentence.startswith(f"Error: {words[0]} needs --http.")


@pytest.mark.spec("K3a", "E1a")
def test_ctrl_c_changes_nothing_and_says_so_on_a_line_of_its_own(cli: Cli) -> None:
    with Terminal(cli, "mcp", "install", "claude", columns=200) as person:
        person.expect("? [y/N] ")
        person.press(b"\x03")
        person.expect("\nError: Interrupted. Nothing was changed.\n")
        assert person.finish() == 130
    assert not (cli.project / ".mcp.json").exists()
