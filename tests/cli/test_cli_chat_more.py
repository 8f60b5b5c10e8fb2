"""`holdfast chat new`, `run`, `cancel`, `status`; and what cannot be a document."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.chatting import NAME, PENDING, Running, answer, start, write_calls
from tests.cli.command import Cli


@pytest.mark.spec("E1c")
def test_a_new_document_is_never_written_over_another(cli: Cli) -> None:
    made = cli.run("chat", "new", NAME, "--system", "Be brief.", "-m", "hello")
    document = cli.project / NAME
    assert made.code == 0 and f"Continue with `holdfast chat {NAME}`." in made.err
    assert document.read_text() == "@System:\nBe brief.\n\n@You:\nhello\n"
    again = cli.run("chat", "new", NAME, "-m", "other")
    assert again.code == 2 and "exists already" in again.sentence
    assert document.read_text().endswith("hello\n")
    assert cli.run("chat", "new", "empty.chat", "--json").json == {
        "path": str(cli.project / "empty.chat"),
        "content": "@You:\n\n",
    }
    assert cli.run("chat", "new", "gone/a.chat").code == 2
    assert cli.run("chat", "new", "-m", "-", "--system", "-", "b.chat").code == 2


@pytest.mark.spec("E1c")
def test_the_model_of_a_new_document_is_trusted_because_it_was_typed_here(cli: Cli) -> None:
    cli.configure('[model]\nname = "openai:gpt-5"\n')
    assert cli.run("chat", "new", NAME, "--model", "operator", "-m", "calculate 6 * 7").code == 0
    assert (cli.project / NAME).read_text().startswith('```toml\n[model]\nname = "operator"\n```\n\n@You:\n')
    assert cli.run("chat", "status", NAME, "--json").json["model"] == "operator"
    done = cli.run("chat", NAME)
    assert done.code == 0 and "42" in done.out
    assert cli.run("trust", "list", "--json").json["trusted"] is True


@pytest.mark.spec("U5")
def test_one_call_alone_is_approved_run_or_settled(cli: Cli) -> None:
    document = write_calls(cli, "echo 1 > one", "echo 2 > two", "echo 3 > three", "echo 4 > four")
    assert cli.run("chat", NAME).code == 4
    done = cli.run("chat", "run", "c2")
    assert done.code == 0, done
    assert [name for name in ("one", "two", "three", "four") if (cli.project / name).exists()] == ["two"]
    answer(document, "rejected", "no")
    assert cli.run("chat", "run", "c1", NAME).code == 3
    pending = {item["args"]["command"]: item["call_id"] for item in cli.run("pending", "--json").lines}
    assert cli.run("chat", "run", pending["echo 3 > three"], NAME, "--json").code == 0
    assert (cli.project / "three").exists() and not (cli.project / "one").exists()
    text = document.read_text()
    assert text.count(PENDING) == 1 and "**Tool Result:** `c1` (error)\n\n```\nno\n```" in text
    missing = cli.run("chat", "run", "c9", NAME)
    assert missing.code == 2 and "has the id 'c9'" in missing.sentence


@pytest.mark.spec("U5")
def test_an_id_that_several_documents_have_needs_the_file(cli: Cli) -> None:
    for name in ("a.chat", "b.chat"):
        write_calls(cli, "true", name=name)
        assert cli.run("chat", name).code == 4
    several = cli.run("chat", "run", "c1")
    assert several.code == 2 and "a.chat" in several.sentence and "b.chat" in several.sentence
    assert cli.run("chat", "run", "c1", "a.chat").code == 0
    assert cli.run("chat", "run", "c1").code == 2, "it is an id another call had"
    assert cli.run("chat", "run", "c1", "b.chat").code == 0


@pytest.mark.spec("E1c", "O1b", "U7")
def test_the_status_says_what_comes_next_and_writes_nothing(cli: Cli) -> None:
    document = start(cli, "run `echo hi`")
    assert cli.run("chat", "status").out == "No document of this project is being advanced or has calls open.\n"
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "send"
    cli.run("chat", NAME)
    before = document.stat().st_mtime_ns, document.read_bytes()
    status = cli.run("chat", "status", "--json").json
    (slot,) = status["slots"]
    assert (status["next"], status["pid"], status["replies"], status["since_you"]) == ("pending", None, 1, 1)
    assert slot["preview"] == slot["pending"]["preview"] == "shell.exec: $ echo hi"
    assert status["cursor"] == {"line": slot["line"], "column": 1}
    assert document.read_text().splitlines()[int(slot["line"]) - 1] == f"**Tool Result:** `{slot['id']}`"
    assert status["usage"]["output"] > 0
    shown = cli.run("chat", "status", NAME)
    assert f"pending   call {slot['call_id']} at {NAME}:{slot['line']}\n" in shown.out
    assert f"id        {slot['id']}\n" in shown.out and "│ command: echo hi\n" in shown.out
    assert before == (document.stat().st_mtime_ns, document.read_bytes())
    answer(document, "approved")
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "execute"
    cli.run("chat", NAME)
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "yours"


@pytest.mark.spec("E1c")
def test_the_status_shows_what_is_wrong_with_a_document_and_where(cli: Cli) -> None:
    document = cli.project / NAME
    document.write_text("```toml\nnonsense = [\n```\n\n@You:\nhello\n\n@Nobody:\nx\n")
    status = cli.run("chat", "status", NAME, "--json").json
    assert [item["severity"] for item in status["diagnostics"]] == ["error", "error"]
    shown = cli.run("chat", "status", NAME).out
    assert f"error     {NAME}:8\n" in shown and "Unknown role @Nobody." in shown
    failed = cli.run("chat", NAME)
    assert failed.code == 2 and NAME in failed.sentence
    assert document.read_text().endswith("@Nobody:\nx\n")


@pytest.mark.spec("E1c")
def test_cancel_says_when_nothing_runs_and_one_document_is_driven_by_one_process(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$default", "shell.exec"]\n')
    document = start(cli, "run `echo begun; sleep 60`")
    assert f"Nobody is advancing {NAME}" in cli.run("chat", "cancel", NAME).err
    assert cli.run("chat", "cancel", "--json").json == {"path": None, "pid": None, "told": False}
    with Running(cli, "chat", NAME, "--json") as running:
        running.expect('"text":"begun\\n"')
        busy = cli.run("chat", NAME)
        assert busy.code == 1 and f"process {running.process.pid}" in busy.sentence and "chat cancel" in busy.sentence
        assert cli.run("chat", "cancel").code == 0
        assert running.finish() == 130
        assert '"kind":"cancelled"' in running.text and "Traceback" not in running.text
    assert "(error)" in document.read_text()


@pytest.mark.spec("E1c")
def test_a_second_ctrl_c_stops_at_once() -> None:
    program = (
        "import asyncio\nfrom holdfast.cli.chat.advance import Interrupt\n"
        "async def main():\n    stopped = []\n    interrupt = Interrupt()\n"
        "    with interrupt.stops(lambda: stopped.append(1)):\n        interrupt.press()\n"
        "        assert stopped == [1] and interrupt.pressed\n        interrupt.press()\n"
        "asyncio.run(main())\nprint('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")


@pytest.mark.spec("E1c")
def test_what_is_no_document_is_refused_in_one_sentence(cli: Cli) -> None:
    start(cli, "hello")
    (cli.project / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (cli.project / "secret.chat").write_text("@You:\nhello\n")
    os.mkfifo(cli.project / "pipe.chat")
    for name, words in {
        "nots.chat": "Did you mean notes.chat?",
        "stauts": "Did you mean `holdfast chat status`?",
        "other.txt": "`holdfast chat new other.txt` starts one",
        "picture": "is not text (image/png)",
        ".": "is a folder",
        "pipe.chat": "is not a regular file",
        "a\x1b[2J": "‹\\x1b›[2J",
        "x" * 300: "cannot be opened",
        "notes.chat/x": "cannot be opened",
    }.items():
        done = cli.run("chat", name)
        assert done.code == 2 and words in done.sentence, name
    assert "Did you mean '--step'" in cli.run("chat", NAME, "--stpe").sentence
    assert cli.run("chat").code == 2


@pytest.mark.spec("E1c", "D2")
@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ("@You:\ncafé\n".encode("latin-1"), 1, f"{NAME}:2 is not UTF-8 text (byte 0xE9). Save the file as UTF-8."),
        (b"@you:\nhello\n", 1, f"{NAME}:1: Unknown role @you. Use @You:."),
        (b"---\nmodel:\n  name: operator\n---\n@You:\nhello\n", 2, 'model.name = "operator"'),
    ],
)
def test_a_document_that_is_not_read_as_it_is_meant_fails(cli: Cli, data: bytes, code: int, says: str) -> None:
    (cli.project / NAME).write_bytes(data)
    done = cli.run("chat", NAME)
    assert done.code == code and says in done.err
    assert (cli.project / NAME).read_bytes() == data


@pytest.mark.spec("E1c")
def test_any_text_file_can_be_a_document(cli: Cli) -> None:
    document = cli.project / "talk.md"
    document.write_bytes(b"\x01 odd\r\n@You:\r\ncalculate 6 * 7\r\n")
    done = cli.run("chat", "talk.md")
    assert done.code == 0, done
    data = document.read_bytes()
    assert data.startswith(b"\x01 odd\r\n@You:\r\n") and b"42" in data
    assert b"\n" not in data.replace(b"\r\n", b"")


@pytest.mark.spec("E1c")
def test_whoever_reads_the_output_may_go_away(cli: Cli) -> None:
    document = start(cli, "calculate 6 * 7")
    command = subprocess.list2cmdline(cli.command("chat", NAME, "--json"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        cwd=cli.project,
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 141) and "Traceback" not in done.stderr
    assert "42" in document.read_text(), "the work is done all the same"


def test_watching_without_watchdog_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    start(cli, "hello")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['watchdog'] = None\n")
    done = cli.run("chat", NAME, "--watch", env={"PYTHONPATH": str(site)})
    assert done.code == 1 and "pip install 'holdfast[watch]'" in done.sentence
