"""A sample conversation with the built-in operator, in a scratch copy of a small project."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.agent.events import AgentEvent, Outcome, ReplyWritten, ResultWritten
from holdfast.cli import console
from holdfast.cli.approval_prompt import TerminalAsker
from holdfast.cli.layout import quote
from holdfast.cli.pending_view import print_pending
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import ChatSession, open_chat
from holdfast.helper_process import holdfast_module

_SAMPLE: Final = Path(__file__).parent / "sample"
_DOCUMENT: Final = "tour.chat"
_WIDEST: Final = 88
_BY: Final = "tour"
_STARTS: Final = ("@", "**Tool")


class Scratch:
    """A folder with a copy of the sample project, and beside it a state and a configuration of its own.

    The user's ledger is not written to, and their configuration does not change what there is to see.
    """

    def __init__(self) -> None:
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="holdfast-tour-")))
        self.project = self.folder / "project"
        self.document = self.project / _DOCUMENT
        self.variables = {"XDG_STATE_HOME": str(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        self.project.mkdir()
        for file in _SAMPLE.iterdir():  # the contents only: what is installed may be read-only
            shutil.copyfile(file, self.project / file.name)

    @contextmanager
    def entered(self) -> Generator[None]:
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Guide:
    """Tells, and shows the document as it grows."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._width = min(console.screen_width(), _WIDEST)
        self._seen: list[str] = []

    def title(self, text: str) -> None:
        console.print_out()
        for line in _wrapped(text, self._width):
            console.print_out(console.paint(line, "bold"))

    def tell(self, text: str) -> None:
        console.print_out_lines(_wrapped(text, self._width))

    def show_growth(self) -> None:
        """What is new in the document, from the beginning of the block it is in."""
        lines = self._scratch.document.read_text(encoding="utf-8").rstrip("\n").split("\n")
        new = "\n".join(lines[_first_new(self._seen, lines) :])
        console.print_out_lines(quote(new, sys.stdout, style=_style).lines if new else ())
        self._seen = lines

    def heard(self, event: AgentEvent) -> None:
        if isinstance(event, ReplyWritten | ResultWritten):
            with suppress(BrokenPipeError):  # the next line of the tour itself meets it, and ends the tour
                self.show_growth()


def main() -> int:
    """Take the tour. 0 when it was taken to its end, or to the call that waits where nobody can be asked."""
    scratch = Scratch()
    try:
        with scratch.entered():
            waiting = asyncio.run(_tour(scratch))
    except (KeyboardInterrupt, asyncio.CancelledError):
        scratch.remove()
        console.print_out("\nThe tour was left early; nothing of it stays behind.")
        return 130
    except BaseException:
        scratch.remove()
        raise
    if not waiting:
        scratch.remove()
    return 0


async def _tour(scratch: Scratch) -> bool:
    """Whether something waits in the end."""
    guide = Guide(scratch)
    guide.tell(
        "A conversation with holdfast is a plain file. This one is in a scratch copy of a small project, and who "
        "answers is the built-in operator: no key, no network, a small grammar of plain requests."
    )
    guide.title(f"1. You write a request ({_DOCUMENT})")
    guide.show_growth()
    guide.title("2. The model asks for calls, holdfast decides")
    guide.tell("Reading, and changing files of the project, is approved by default; a command is not.")
    async with open_chat(scratch.document, by=_BY, on_event=guide.heard) as chat:
        outcome = await chat.loop.advance()
        while outcome.kind == "pending" and (pending := _pending(chat, outcome)) is not None:
            guide.show_growth()
            guide.title("3. The command waits for you")
            if not await _ask(chat, pending, guide):
                _say_how(guide, scratch, pending)
                return True
            guide.title("4. What you said is in the document, and it goes on")
            outcome = await chat.loop.advance()
    if outcome.kind != "done":
        raise HoldfastError(f"The tour cannot go on: {outcome.message or outcome.kind}")
    guide.title("That is all")
    guide.tell(
        "The document holds the whole conversation, and can be edited, diffed and committed. Begin your own in a "
        "project: `holdfast chat new plan.chat`, then `holdfast chat plan.chat`. Other models are named by "
        "`model.name`; see `holdfast chat --help`. The scratch copy is removed now."
    )
    return False


def _pending(chat: ChatSession, outcome: Outcome) -> PendingCall | None:
    """The call that waits."""
    opened = next((slot.call for slot in outcome.slots if slot.call is not None), None)
    return None if opened is None else chat.runtime.pending.ledger.find_pending(opened.call_id)


async def _ask(chat: ChatSession, pending: PendingCall, guide: Guide) -> bool:
    """Whether it was answered; without a terminal it is only shown."""
    if console.can_ask():
        asker = TerminalAsker(chat.runtime)
        await asker(pending)
        return asker.answered
    print_pending(pending, sys.stdout)
    return False


def _say_how(guide: Guide, scratch: Scratch, pending: PendingCall) -> None:
    """The exact commands that go on from here."""
    program = _program()
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in scratch.variables.items())
    guide.title("Nobody answered, so it waits")
    guide.tell("To look at it again, approve it, and let the conversation go on:")
    for command in (
        f"cd {shlex.quote(str(scratch.project))}",
        f"export {exports}",
        f"{program} pending {pending.call.id}",
        f"{program} approve {pending.call.id}",
        f"{program} chat {_DOCUMENT}",
    ):
        console.print_out(f"  {command}")
    guide.tell(
        f"Or write status=approved into the block in {_DOCUMENT} instead of the approve command. "
        f"`{program} reject {pending.call.id}` says no."
    )
    guide.tell("Everything is in one folder; remove it when you are done:")
    console.print_out(f"  rm -r {shlex.quote(str(scratch.folder))}")


def _program() -> str:
    """What to type so that this very holdfast is run."""
    ours = Path(sys.executable).parent / "holdfast"
    found = shutil.which("holdfast")
    if found is not None and ours.exists() and ours.samefile(found):
        return "holdfast"
    return shlex.quote(str(ours)) if ours.exists() else shlex.join(holdfast_module("holdfast"))


def _first_new(before: Sequence[str], now: Sequence[str]) -> int:
    """The line from which to show: that of the block in which the first change is."""
    first = next((at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), len(before))
    first = min(first, len(now))
    while first < len(now) and not now[first].strip():
        first += 1
    if first == len(now):
        return first
    return next((at for at in range(first, -1, -1) if now[at].startswith(_STARTS)), first)


def _style(line: str, _: int) -> tuple[str, ...]:
    if line.startswith("@"):
        return ("bold",)
    if line.startswith("**Tool"):
        return ("cyan",)
    return ("dim",) if line.startswith("```") else ()


def _wrapped(text: str, width: int) -> Iterator[str]:
    return iter(textwrap.wrap(text, width, break_on_hyphens=False) or [""])
