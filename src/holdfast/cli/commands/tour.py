"""`holdfast tour`: a sample conversation with the built-in operator, in a scratch copy of a small project."""

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

import click

from holdfast.agent.events import AgentEvent, Outcome, ReplyWritten, ResultWritten
from holdfast.cli import console
from holdfast.cli.approval_prompt import TerminalAsker
from holdfast.cli.layout import quote
from holdfast.cli.pending_view import print_pending
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import ChatSession, open_chat
from holdfast.helper_process import holdfast_module

_SAMPLE: Final = Path(__file__).parent.parent / "sample"
_DOCUMENT: Final = "tour.chat"
_WIDEST: Final = 88
_BY: Final = "tour"
_BLOCK_STARTS: Final = ("@", "**Tool")


class Scratch:
    """A temporary folder with a copy of the sample project and its own state and configuration directories.

    The tour does not write to the user's ledger, and the user's configuration does not affect it.
    """

    def __init__(self) -> None:
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="holdfast-tour-")))
        self.project = self.folder / "project"
        self.document = self.project / _DOCUMENT
        self.variables = {"XDG_STATE_HOME": str(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        self.project.mkdir()
        for file in _SAMPLE.iterdir():  # not copytree: installed files may be read-only
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
    """Prints the explanations, and the document as it grows."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._width = min(console.screen_width(), _WIDEST)
        self._seen: list[str] = []

    def title(self, text: str) -> None:
        console.print_out()
        for line in _wrapped(text, self._width):
            console.print_out(console.paint(line, "bold"))

    def explain(self, text: str) -> None:
        console.print_out_lines(_wrapped(text, self._width))

    def show_growth(self) -> None:
        """Print what is new in the document, from the start of the block that changed."""
        lines = self._scratch.document.read_text(encoding="utf-8").rstrip("\n").split("\n")
        new = "\n".join(lines[_first_new(self._seen, lines) :])
        console.print_out_lines(quote(new, sys.stdout, style=_style).lines if new else ())
        self._seen = lines

    def on_event(self, event: AgentEvent) -> None:
        if isinstance(event, ReplyWritten | ResultWritten):
            with suppress(BrokenPipeError):  # the next line of the tour raises it again and ends the tour
                self.show_growth()


@click.command()
def tour() -> int:
    """Watch a two-minute demonstration in a scratch project.

    A sample conversation edits a file and runs a command, and you approve the
    command. It needs no key and no network, and changes nothing of yours.

    \b
    Example:
      holdfast tour
    """
    scratch = Scratch()
    try:
        with scratch.entered():
            is_pending = asyncio.run(_tour(scratch))
    except (KeyboardInterrupt, asyncio.CancelledError):
        scratch.remove()
        console.print_out("\nTour cancelled. The scratch copy was removed.")
        return 130
    except BaseException:
        scratch.remove()
        raise
    if not is_pending:
        scratch.remove()
    return 0


async def _tour(scratch: Scratch) -> bool:
    """Run the tour; return whether it ended at a pending call."""
    guide = Guide(scratch)
    guide.explain(
        "A conversation with holdfast is a plain file. This one is in a scratch copy of a small project. The built-in "
        "operator plays the model: it understands a few plain requests and needs no key and no network."
    )
    guide.title(f"1. You write a request ({_DOCUMENT})")
    guide.show_growth()
    guide.title("2. The model requests calls, holdfast decides")
    guide.explain("By default, reading and editing project files is approved; running a command is not.")
    async with open_chat(scratch.document, by=_BY, on_event=guide.on_event) as chat:
        outcome = await chat.loop.advance()
        while outcome.kind == "pending" and (pending := _pending(chat, outcome)) is not None:
            guide.show_growth()
            guide.title("3. The command needs your approval")
            if not await _ask(chat, pending, guide):
                _print_next_steps(guide, scratch, pending)
                return True
            guide.title("4. Your answer is in the document, and the conversation continues")
            outcome = await chat.loop.advance()
    if outcome.kind != "done":
        raise HoldfastError(f"The tour stopped: {outcome.message or outcome.kind}")
    guide.title("That is the tour")
    guide.explain(
        "The document holds the whole conversation. You can edit, diff and commit it. Start your own in a project: "
        "`holdfast chat new plan.chat`, then `holdfast chat plan.chat`. To use another model, set `model.name`; see "
        "`holdfast chat --help`. The scratch copy is removed now."
    )
    return False


def _pending(chat: ChatSession, outcome: Outcome) -> PendingCall | None:
    opened = next((slot.call for slot in outcome.slots if slot.call is not None), None)
    return None if opened is None else chat.runtime.pending.ledger.find_pending(opened.call_id)


async def _ask(chat: ChatSession, pending: PendingCall, guide: Guide) -> bool:
    """Ask about the call; return whether it was answered. Without a terminal the call is only shown."""
    if console.can_ask():
        asker = TerminalAsker(chat.runtime)
        await asker(pending)
        return asker.answered
    print_pending(pending, sys.stdout)
    return False


def _print_next_steps(guide: Guide, scratch: Scratch, pending: PendingCall) -> None:
    """Print the exact commands that answer the pending call."""
    program = _program()
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in scratch.variables.items())
    guide.title("The call is pending")
    guide.explain("To look at it again, approve it, and continue the conversation:")
    for command in (
        f"cd {shlex.quote(str(scratch.project))}",
        f"export {exports}",
        f"{program} pending {pending.call.id}",
        f"{program} approve {pending.call.id}",
        f"{program} chat {_DOCUMENT}",
    ):
        console.print_out(f"  {command}")
    guide.explain(
        f"Instead of the approve command you can write status=approved into the block in {_DOCUMENT}. "
        f"`{program} reject {pending.call.id}` rejects the call."
    )
    guide.explain("Everything is in one folder. Remove it when you are done:")
    console.print_out(f"  rm -r {shlex.quote(str(scratch.folder))}")


def _program() -> str:
    """Return the shell command that runs this installation of holdfast."""
    ours = Path(sys.executable).parent / "holdfast"
    found = shutil.which("holdfast")
    if found is not None and ours.exists() and ours.samefile(found):
        return "holdfast"
    return shlex.quote(str(ours)) if ours.exists() else shlex.join(holdfast_module("holdfast"))


def _first_new(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the index of the first line of the block that contains the first change."""
    first = next((at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), len(before))
    first = min(first, len(now))
    while first < len(now) and not now[first].strip():
        first += 1
    if first == len(now):
        return first
    return next((at for at in range(first, -1, -1) if now[at].startswith(_BLOCK_STARTS)), first)


def _style(line: str, _: int) -> tuple[str, ...]:
    if line.startswith("@"):
        return ("bold",)
    if line.startswith("**Tool"):
        return ("cyan",)
    return ("dim",) if line.startswith("```") else ()


def _wrapped(text: str, width: int) -> Iterator[str]:
    return iter(textwrap.wrap(text, width, break_on_hyphens=False) or [""])
