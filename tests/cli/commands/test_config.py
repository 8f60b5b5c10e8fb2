"""`holdfast config edit`, and the machine's configuration in a real process."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import TIMEOUT, Cli

MACHINE = """
[tools]
deny = ["calculator"]
profile = "minimal"

[approval]
require_approval = true
"""


IN_PLACE_OF_ETC = 'mount --bind "$0" /etc && exec "$@"'
SYSTEM_FILES = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime")


def as_on_a_machine(cli: Cli, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a user namespace with `text` in /etc/holdfast/config.toml."""
    etc = cli.project.parent / "etc"
    (etc / "holdfast").mkdir(parents=True, exist_ok=True)
    (etc / "holdfast" / "config.toml").write_text(text)
    for path in (etc, etc / "holdfast", etc / "holdfast" / "config.toml"):
        path.chmod(0o755)
    for name in SYSTEM_FILES:
        if Path("/etc", name).exists():
            shutil.copyfile(Path("/etc", name), etc / name)
    program = shutil.which("unshare")
    inside = [program or "", "--user", "--map-root-user", "--mount", "sh", "-c", IN_PLACE_OF_ETC, str(etc)]
    if program is None or subprocess.run([*inside, "true"], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip("no user namespace with a mount of its own can be made here")
    command = [*inside, *cli.command(*args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cli.project, env=cli.env, timeout=TIMEOUT
    )


@pytest.mark.spec("P8")
def test_a_real_process_obeys_the_machine_whatever_its_user_configures(cli: Cli) -> None:
    cli.configure("[tools]\nprofile = 'full'\ndeny = { remove = ['calculator'] }\n")
    flags = ("--set", "approval.require_approval=false", "--set", "tools.deny=[]")
    done = as_on_a_machine(cli, MACHINE, *flags, "config", "show", "--json")
    shown = json.loads(done.stdout)
    config = shown["config"]
    assert config["tools.deny"] == ["calculator"] and config["approval.require_approval"] is True
    assert [layer["name"] for layer in shown["layers"]] == ["machine", "user", "flags"]
    assert any("/etc/holdfast/config.toml sets" in notice for notice in shown["notices"])
    done = as_on_a_machine(cli, MACHINE, "policy", "explain", "file.write")
    assert "/etc/holdfast/config.toml" in done.stdout and "deny" in done.stdout
    for command in (("policy", "show"), ("config", "check")):
        assert "/etc/holdfast/config.toml" in as_on_a_machine(cli, MACHINE, *command).stdout


@pytest.mark.spec("P8")
def test_a_broken_machine_file_stops_every_command(cli: Cli) -> None:
    done = as_on_a_machine(cli, "[tols]\n", "tools")
    assert done.returncode == 2 and "/etc/holdfast/config.toml: tols is not an option" in done.stderr


def editor(cli: Cli, text: str) -> dict[str, str]:
    script = cli.project.parent / "editor.sh"
    script.write_text(f"#!/bin/sh\ncat > \"$1\" <<'END'\n{text}\nEND\n")
    script.chmod(0o755)
    return {"EDITOR": str(script), "VISUAL": ""}


@pytest.mark.spec("P8", "E1a")
def test_a_users_rules_for_a_project_are_edited_outside_it_and_need_no_trust(cli: Cli) -> None:
    done = cli.run("config", "edit", "--project", "--json", env=editor(cli, "[tools]\nprofile = 'full'"))
    assert done.code == 0, done
    path = Path(done.json["path"])
    assert done.json["changed"] and path.is_relative_to(cli.env["XDG_CONFIG_HOME"])
    assert list(cli.project.iterdir()) == [cli.project / ".git"]
    shown = cli.run("config", "show", "--json").json
    assert shown["config"]["tools.profile"] == "full"
    assert [(layer["name"], layer["trusted"]) for layer in shown["layers"]] == [("user project", True)]
    refused = cli.run("config", "edit", "--project", env=editor(cli, "[tols]"))
    assert refused.code == 2 and "Nothing was saved." in refused.sentence
    assert "Did you mean 'tools'?" in refused.sentence
    assert "profile = 'full'" in path.read_text()
    script = editor(cli, "")
    Path(script["EDITOR"]).write_text('#!/bin/sh\nsed -i s/tols/tools/ "$1"\n')
    assert cli.run("config", "edit", "--project", env=script).code == 0, "the next edit begins with what was refused"
    assert path.read_text() == "[tools]\n" and list(path.parent.iterdir()) == [path]
    outside = cli.run("config", "edit", "--project", cwd=cli.project.parent, env=editor(cli, ""))
    assert outside.code == 2 and "no project here" in outside.sentence


@pytest.mark.spec("P8", "S4")
def test_an_approval_records_the_account_of_the_system_beside_the_name_that_was_given(cli: Cli) -> None:
    call = cli.make_pending("file.write", "path=Makefile", "content=x")
    assert cli.run("pending", call).code == 0
    assert cli.run("approve", call, "--by", "somebody").code == 0
    real = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout.strip()
    (answer,) = cli.run("ledger", "show", call, "--json").json["answers"]
    assert (answer["by"], answer["user"]) == ("cli:somebody", real)
    assert f'"user":"{real}"' in cli.run("ledger", "export").out.replace(" ", "")
