"""Documents that the real command creates, advances and watches."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import time
from pathlib import Path
from types import TracebackType

from tests.cli.command_line import Cli, Done, Json, start_command, utf8_decoder

PATIENCE = 100.0
NAME = "notes.chat"
PENDING = "status=pending"


def start(cli: Cli, words: str, *, name: str = NAME) -> Path:
    """Create a document with a first message."""
    done = cli.run("chat", "new", name, "-m", words)
    assert done.code == 0, done
    return cli.project / name


def answer(document: Path, status: str, text: str = "") -> None:
    """Change the first pending status, as in an editor, and write `text` into its block."""
    content = document.read_text()
    body = f"status={status}\n{text}\n" if text else f"status={status}\n"
    assert f"{PENDING}\n" in content, content
    document.write_text(content.replace(f"{PENDING}\n", body, 1))


def outcome(done: Done) -> Json:
    """Return the last event, which is the outcome."""
    last = done.lines[-1]
    assert last["event"] == "outcome", last
    assert last["exit_code"] == done.code
    return last


def events(done: Done, kind: str) -> list[Json]:
    return [line for line in done.lines if line["event"] == kind]


def write_calls(cli: Cli, *commands: str, name: str = NAME) -> Path:
    """Write a document whose last reply requests shell commands in parallel, as calls c1, c2, …"""
    text = "@You:\nhello\n\n@Assistant:\nHere.\n"
    for number, command in enumerate(commands, 1):
        arguments = json.dumps({"command": command, "cwd": None, "timeout": None, "label": None})
        text += f"\n**Tool Use:** `shell.exec` (`c{number}`)\n\n```json\n{arguments}\n```\n"
    document = cli.project / name
    document.write_text(text)
    return document


class Running:
    """The command in the background; every wait for its output is bounded."""

    def __init__(self, cli: Cli, *args: str) -> None:
        self._output, theirs = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        self.process = start_command(cli, args, [nothing, theirs, theirs])
        os.close(theirs)
        os.close(nothing)
        self.text = ""
        self._decoder = utf8_decoder()
        self._seen = 0

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._output)

    def expect(self, words: str) -> None:
        """Wait until the text appears after the last expected text."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text[self._seen :]:
            assert self._read(deadline), f"{words!r} did not appear:\n{self.text}"
        self._seen += self.text[self._seen :].index(words) + len(words)

    def interrupt(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Press Ctrl-C until a watcher has ended: while a turn is ending, Ctrl-C stops only the turn."""
        deadline, seen = time.monotonic() + PATIENCE, len(self.text)
        self.interrupt()
        while self._read(deadline):
            if "Stopped. Save " in self.text[seen:]:
                seen = len(self.text)
                self.interrupt()
        return self.process.wait(PATIENCE)

    def finish(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no more output:\n{self.text}"
        piece = os.read(self._output, 65_536)
        self.text += self._decoder.decode(piece)
        return bool(piece)


def call_ids(document: Path) -> list[str]:
    return re.findall(r"\*\*Tool Use:\*\* `[^`]+` \(`([^`]+)`\)", document.read_text())
