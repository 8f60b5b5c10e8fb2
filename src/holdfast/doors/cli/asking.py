"""Asking the person at the terminal about a held call: shown first, then yes, no, and everything between."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.contract.call import Answer
from holdfast.contract.errors import HoldfastError, NotPending, UnknownCall
from holdfast.doors.cli.arguments import read_object
from holdfast.doors.cli.folding import note_folded, sentence
from holdfast.doors.cli.held import HeldView
from holdfast.doors.cli.holding import note_shown
from holdfast.doors.cli.place import whoami
from holdfast.doors.cli.questions import QUESTIONS, ask_questions
from holdfast.doors.cli.screen import note, screen_width, shown
from holdfast.doors.cli.typing_in import Leave, edit, forget_typed_ahead, page, read_line, turn

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall
    from holdfast.runtime.runtime import Runtime

_CHOICES: Final = {
    "y": "yes",
    "n": "no",
    "m": "no, with a message",
    "e": "edit the arguments",
    "a": "always allow",
    "r": "give the result yourself",
    "d": "details",
    "q": "quit, leave it waiting",
}
_FOR_RESULTS: Final = ("r", "m", "n", "d", "q")
"""What is left for a tool that has no code: it cannot be run, only answered."""

Step = Callable[["PendingCall"], Awaitable["Answer | PendingCall | None"]]
"""Gives the answer, or the call to ask about next: the same one again, or a changed one."""


class TerminalAsker:
    """An asker for `Runtime`: takes the answers to the pipeline itself, so that a refused one can be asked again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by = whoami()
        self.asked = False
        self.answered = False
        """Whether an answer was given here, and not at another door."""
        self._helped = False
        self._cut = False
        """Whether something of the call that is asked about was not shown yet."""
        self._steps: dict[str, Step] = {
            "y": self._yes,
            "n": self._no,
            "m": self._message,
            "e": self._edit,
            "a": self._always,
            "r": self._result,
            "d": self._details,
        }

    async def __call__(self, held: PendingCall) -> None:
        async with turn():
            await self._attend(held)

    async def _attend(self, held: PendingCall) -> None:
        shown: PendingCall | None = None
        if self.asked:
            note("It would do something else by now; look again:")
        self.asked = True
        try:
            while True:
                if held is not shown:
                    await self._show(held)
                    shown = held
                    forget_typed_ahead()
                held = await self._ask(held)
        except Answered:
            self.answered = True
        except Leave:
            return
        except asyncio.CancelledError:
            note()
            raise

    async def _ask(self, held: PendingCall) -> PendingCall:
        """One question; the call to ask about next."""
        if held.call.tool == QUESTIONS:
            step = self._result
        else:
            step = await self._choose(held)
        try:
            said = await step(held)
            if not isinstance(said, Answer):
                return held if said is None else said
            await self._runtime.pipeline.answer(held.call.id, said, digest=held.digest)
        except (NotPending, UnknownCall) as error:
            note_folded(shown(str(error)))
        except HoldfastError as error:
            note_folded(shown(str(error)), "Not possible:", "red")
            return held
        raise Answered

    async def _show(self, held: PendingCall) -> None:
        note()
        if held.call.tool == QUESTIONS:
            note("You are asked:")
            return
        tool = self._runtime.registry.find(held.call.tool)
        view = HeldView(held, risk=None if tool is None else tool.risk)
        await page(view.short())
        self._cut = not view.short_is_whole
        note()
        if view.short_is_whole:
            note_shown(self._runtime.workspace.state, [held])

    async def _choose(self, held: PendingCall) -> Step:
        keys = _FOR_RESULTS if held.definition_only else tuple(_CHOICES)
        while True:
            typed = await read_line(f"{_legend(keys)}\n> ")
            if typed is None:
                note()
            key = "q" if typed is None else typed.strip().lower()
            if key in ("yes", "no"):
                key = key[0]
            if key == "q":
                raise Leave
            if key in keys:
                return self._steps[key]
            if not self._helped:
                note("Type one of the letters.")
                self._helped = True

    async def _yes(self, held: PendingCall) -> Answer | None:
        return Answer(kind="approve", by=self._by) if await self._seen(held) else None

    async def _no(self, held: PendingCall) -> Answer:
        return Answer(kind="reject", by=self._by)

    async def _message(self, held: PendingCall) -> Answer | None:
        text = await read_line("What should the model know? ")
        return Answer(kind="reject", by=self._by, message=text.strip()) if text and text.strip() else None

    async def _edit(self, held: PendingCall) -> PendingCall | None:
        old = json.dumps(held.call.args, indent=2, ensure_ascii=False)
        new = await edit(f"{old}\n", ".json")
        if new is None:
            new = await read_line("New arguments, one line of JSON: ")
        if not new or not new.strip():
            return None
        args = read_object(new, "The arguments")
        return None if args == held.call.args else await self._runtime.pipeline.change(held, args, by=self._by)

    async def _always(self, held: PendingCall) -> Answer | None:
        from holdfast.doors.cli.granting import choose_grant

        if not await self._seen(held):
            return None
        granted = await choose_grant(self._runtime, held, self._by)
        return Answer(kind="approve", by=self._by) if granted else None

    async def _result(self, held: PendingCall) -> Answer | None:
        text = await ask_questions(held)
        if text is None:
            raise Leave
        return Answer(kind="result", by=self._by, message=text)

    async def _details(self, held: PendingCall) -> None:
        await page(HeldView(held).details())
        self._whole_was_shown(held)

    async def _seen(self, held: PendingCall) -> bool:
        """Whether all of it was shown before; if not, it is shown now, and asked about again."""
        if self._cut:
            note_folded("Not all of it was shown. This is the whole:")
            await page(HeldView(held).uncut())
            self._whole_was_shown(held)
            forget_typed_ahead()
            return False
        return True

    def _whole_was_shown(self, held: PendingCall) -> None:
        self._cut = False
        note_shown(self._runtime.workspace.state, [held])


class Answered(Exception):
    """The answer was taken."""


def _legend(keys: tuple[str, ...]) -> str:
    import textwrap

    words = "  ".join(f"[{key}] {_CHOICES[key]}".replace(" ", "\N{NO-BREAK SPACE}") for key in keys)
    wrapped = textwrap.fill(words, screen_width(sys.stderr) - 1, break_long_words=False, break_on_hyphens=False)
    lines = wrapped.replace("\N{NO-BREAK SPACE}", " ").split("\n")
    return "\n".join(part for line in lines for part in sentence(line, sys.stderr))
