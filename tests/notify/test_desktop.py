"""The desktop channel with a program named `notify-send` that records what it gets."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from holdfast.notify.channel import ChannelFailed
from holdfast.notify.desktop import DesktopChannel, command, missing_desktop
from holdfast.notify.notifier import send_to
from tests.notify.support import message_of, pending_call
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7n")
SESSION = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `notify-send` on PATH; the file has its arguments after it ran."""
    found = tmp_path / "recorded.json"
    install(tmp_path / "bin", f"import json, sys\nopen({str(found)!r}, 'w').write(json.dumps(sys.argv[1:]))")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return found


def install(folder: Path, code: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / "notify-send"
    program.write_text(f"#!{sys.executable} -IS\n{code}\n")
    program.chmod(0o755)


def test_the_program_gets_the_question_and_the_link(recorded: Path, project: Path) -> None:
    message = message_of(pending_call(command="cat <b>a</b> & --help"), link="http://127.0.0.1:1/calls/c1")
    run(DesktopChannel(project).send(message))
    assert json.loads(recorded.read_text()) == [
        "--app-name=holdfast",
        "--urgency=critical",
        "--",
        "holdfast: 1 call is pending",
        "shell.exec asks: cat &lt;b&gt;a&lt;/b&gt; &amp; --help (high risk), in web by coder\nhttp://127.0.0.1:1/calls/c1",
    ]


def test_an_ordinary_call_is_not_urgent() -> None:
    assert "--urgency=normal" in command(message_of(pending_call(risk=None)))


def test_a_failure_names_the_exit_code_and_the_words_of_the_program(
    recorded: Path, tmp_path: Path, project: Path
) -> None:
    install(tmp_path / "bin", "import sys; sys.exit('no \\x1b[31m bus')")
    with pytest.raises(ChannelFailed, match=r"^notify-send failed with exit code 1: no ‹\\x1b›\[31m bus$"):
        run(DesktopChannel(project).send(message_of(pending_call())))


def test_a_program_that_hangs_is_ended(recorded: Path, tmp_path: Path, project: Path) -> None:
    pid = tmp_path / "pid"
    install(
        tmp_path / "bin",
        f"import os, sys, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nos.close(2)\ntime.sleep(600)",
    )
    done = run(send_to(DesktopChannel(project), message_of(pending_call()), seconds=3))
    assert (done.outcome, done.reason) == ("failed", "notify-send did not take the message within 3 seconds.")
    if pid.exists():  # it had time to start
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def test_a_program_of_the_project_is_never_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(project / "bin", "raise SystemExit(0)")
    monkeypatch.setenv("PATH", str(project / "bin"))
    assert missing_desktop(SESSION, project) == "notify-send is not installed"
    with pytest.raises(ChannelFailed, match="was not found on PATH outside the project"):
        run(DesktopChannel(project).send(message_of(pending_call())))


def test_a_desktop_needs_a_session(recorded: Path, project: Path, tmp_path: Path) -> None:
    assert missing_desktop(SESSION, project) == ""
    assert missing_desktop({"DISPLAY": ":0"}, project) == ""
    assert missing_desktop({"XDG_RUNTIME_DIR": str(tmp_path)}, project) == "there is no desktop session"
    (tmp_path / "bus").touch()
    assert missing_desktop({"XDG_RUNTIME_DIR": str(tmp_path)}, project) == ""
