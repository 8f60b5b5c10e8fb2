"""Asking the person at the terminal about a held call: shown first, then yes, no, always, and everything between."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from msgspec import ValidationError, convert

from holdfast.cli.arguments import read_object
from holdfast.cli.console import note, note_lines, screen_width, shown
from holdfast.cli.pending_view import HeldView, note_shown
from holdfast.cli.project_context import whoami
from holdfast.cli.prompt import Leave, page, read_key, read_line, turn
from holdfast.cli.prompt import edit as edit_text
from holdfast.cli.wrap import note_folded, quote, sentence
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.errors import CallError, HoldfastError, NotPending, UnknownCall
from holdfast.contract.json import Args
from holdfast.contract.widening import Widening, all_of
from holdfast.rules.grants import PROJECT, GrantPattern, Width
from holdfast.runtime.approvals import what_changed
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import clip_middle, escape
from holdfast.text.preview import generic_body
from holdfast.tools.shell import SHELL_EXEC

QUESTIONS: Final = "ask.user"
_WIDEN: Final = "Name a host, network, read PATH, write PATH or outside, with commas between several."


async def ask_questions(held: PendingCall) -> str | None:
    """The result the person gives; None when they end the input instead."""
    questions = _questions(held)
    if not questions:
        return await read_line("Result: ")
    answers: list[str] = []
    for text, options in questions:
        answer = await _ask_one(text, options)
        if answer is None:
            return None
        answers.append(answer)
    if len(answers) == 1:
        return answers[0]
    return "\n\n".join(f"{text}\n{answer}" for (text, _), answer in zip(questions, answers, strict=True))


async def _ask_one(text: str, options: Sequence[str]) -> str | None:
    numbered = "\n".join(f"  {number}. {escape(option)}" for number, option in enumerate(options, 1))
    note_lines((*quote(text, sys.stderr).lines, *(quote(numbered, sys.stderr, show=shown).lines if options else ())))
    answer = ""
    while not answer.strip():
        typed = await read_line("Your answer (a number or your own words): " if options else "Your answer: ")
        if typed is None:
            return None
        answer = typed
    choice = answer.strip()
    return options[int(choice) - 1] if choice.isdecimal() and 0 < int(choice) <= len(options) else answer


def _questions(held: PendingCall) -> list[tuple[str, list[str]]]:
    if held.call.tool != QUESTIONS:
        return []
    given = cast(list[dict[str, Any]], held.call.args.get("questions") or [])
    return [(str(item.get("question", "")), list(item.get("options") or [])) for item in given]


LastingScope = Literal["project", "user"]
"""A session of the command line ends with the command, so only these outlive it."""

_SCOPES: Final[dict[LastingScope, str]] = {"project": "in this project", "user": "in all your projects"}
_WIDTHS: Final[tuple[Width, ...]] = ("exact", "folder", "tool", "command")
_LISTED: Final = 160
_WHOLE: Final = 1_000_000
"""Columns of a rule in a list, and of one that somebody is about to keep."""


class Offer(NamedTuple):
    scope: LastingScope
    width: Width
    words: str


def offers(runtime: Runtime, held: PendingCall, by: str) -> list[Offer]:
    """Every rule that may be kept for this call and would cover it, the narrowest first."""
    found: list[Offer] = []
    for width in _WIDTHS:
        for scope, where in _SCOPES.items():
            try:
                spec = runtime.approvals.grant_for(held, scope, by, width)
            except HoldfastError:
                continue
            found.append(Offer(scope, width, f"{rule_words(spec.tool, spec.pattern, _WHOLE)}, {where}"))
    return found


async def choose_grant(runtime: Runtime, held: PendingCall, found: Sequence[Offer], by: str) -> bool:
    """Show the rules that may be kept; a number keeps one. Whether one was kept."""
    note("Always allow, without asking:")
    for number, offer in enumerate(found, 1):
        _show(f"{number}. {offer.words}")
    numbers = [str(number) for number in range(1, len(found) + 1)]
    span = "1" if len(numbers) == 1 else f"1-{len(numbers)}"
    legend = _legend([(span, "keep this rule and run the call"), ("n", "back")])
    key = await read_key(f"{legend}\n> ", (*numbers, "n", "q"))
    if key not in numbers:
        return False
    chosen = found[int(key) - 1]
    await allow(runtime, held, chosen.scope, by, chosen.width)
    return True


async def allow(runtime: Runtime, held: PendingCall, scope: LastingScope, by: str, width: Width = "exact") -> None:
    """Keep a rule for this call, and say how to take it back."""
    grant = await runtime.allow(held, scope, by=by, width=width)
    note(f"Kept as grant {grant.id}. `holdfast grants revoke {grant.id}` takes it back.")


def _show(words: str) -> None:
    note_lines(quote(words, sys.stderr, show=shown).lines)


def rule_words(tool: str, stored: Args, width: int = _LISTED) -> str:
    """Which calls a rule covers, with its arguments in `width` columns, and what must hold them."""
    try:
        pattern = convert(stored, GrantPattern)
    except ValidationError:
        return f"{escape(tool)}: a rule this version cannot read; it allows nothing"
    words = _covered(tool, pattern, width)
    if pattern.given_under is None:
        return f"{words}: an earlier version kept it without its sandbox, so it allows nothing"
    if pattern.files:
        words += f", with {', '.join(escape(file.path) for file in pattern.files)} as it was"
    held = escape(str(pattern.given_under))
    return f"{words}, {held}" if held else words


def _covered(tool: str, pattern: GrantPattern, width: int) -> str:
    if pattern.any_args:
        return f"any call of {escape(tool)}"
    given = {name: value for name, value in pattern.args.items() if value is not None}
    command = given.pop("command", None)
    if pattern.command:
        words = _commands(pattern)
    elif isinstance(command, str) and tool == SHELL_EXEC.name:
        words = f"`{escape(clip_middle(command, width))}` with any timeout"
    else:
        words = f"{escape(tool)} with {generic_body(pattern.args, width) or 'no arguments'}"
        given = {}
    if given:
        words += f" and {generic_body(given, width)}"
    if pattern.free:
        folders = " or ".join(map(_in_project, pattern.folders))
        words += f" and for {', '.join(map(escape, pattern.free))} any file directly in {folders}"
    if pattern.cwd is None or pattern.cwd in (pattern.root, PROJECT):
        return words
    return f"{words}, from {_in_project(pattern.cwd)}"


def _commands(pattern: GrantPattern) -> str:
    command = escape(" ".join((*pattern.command, *pattern.options)))
    match pattern.rest:
        case "files":
            return f"`{command}` with any files of the project and any timeout"
        case "script":
            return f"`{command}*` with any timeout"
        case "reads":
            return f"any plain `{command}` command that only reads in the project"


def _in_project(path: str) -> str:
    """A folder of a rule for every project is shown as below the project's root."""
    return escape(f".{path.removeprefix(PROJECT)}" if path.startswith(PROJECT) else path)


Step = Callable[["TerminalAsker", PendingCall], Awaitable["Answer | PendingCall | None"]]
"""Gives the answer, or the call to ask about next: the same one again, or a changed one."""


class Key(NamedTuple):
    """A key at the prompt: one entry of `KEYS`."""

    key: str
    words: str
    step: Step
    offered: Callable[[TerminalAsker, PendingCall], bool] = lambda asker, held: True


class TerminalAsker:
    """An asker for `Runtime`: takes the answers to the pipeline itself, so that a refused one can be asked again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by = whoami()
        self._asked: PendingCall | None = None
        """The call as it was last shown here."""
        self.answered = False
        """Whether an answer was given here, and not at another interface."""
        self._edited = False
        """The call changed because the person changed it here."""
        self._narrow: PendingCall | None = None
        """The call that waits, where what is asked about is that call with a wider sandbox."""
        self._cut = False
        """Whether something of the call that is asked about was not shown yet."""
        self._offers: list[Offer] = []
        """What may always be allowed, for the call that is asked about."""

    @property
    def can_always(self) -> bool:
        return bool(self._offers)

    @property
    def asked(self) -> bool:
        return self._asked is not None

    async def __call__(self, held: PendingCall) -> None:
        async with turn():
            await self._attend(held)

    async def _attend(self, held: PendingCall) -> None:
        shown: PendingCall | None = None
        try:
            while True:
                if held is not shown:
                    self._tell_change(held)
                    await self._show(held)
                    shown = self._asked = held
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
        step = TerminalAsker.result if held.call.tool == QUESTIONS else await self._choose(held)
        try:
            said = await step(self, held)
            if not isinstance(said, Answer):
                return held if said is None else said
            about = held if said.widen else self._unwidened(held)
            self.answered = True  # from here on it may run, also if we are stopped before we know
            await self._runtime.pipeline.answer(held.call.id, said, digest=about.digest)
        except (NotPending, UnknownCall) as error:
            note_folded(shown(str(error)))
        except HoldfastError as error:
            self.answered = False
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
        self._offers = [] if held.definition_only else offers(self._runtime, held, self._by)
        note()
        if view.short_is_whole:
            self._whole_was_shown(held)

    def _tell_change(self, held: PendingCall) -> None:
        """Why a call is shown again: what was approved here is not what would happen now."""
        if self._asked is not None and self._asked.digest != held.digest and not self._edited:
            changed = what_changed(self._asked, held)
            note_folded(f"It changed since you were shown it: {shown(changed)}. Review it again.")
        self._edited = False

    async def _choose(self, held: PendingCall) -> Step:
        offered = {key.key: key for key in KEYS if key.offered(self, held)}
        legend = _legend((key.key, key.words) for key in offered.values())
        key = await read_key(f"{legend}\n> ", offered, "Press one of the keys.")
        if key is None:
            raise Leave
        return offered[key].step

    async def leave(self, held: PendingCall) -> None:
        raise Leave

    async def approve(self, held: PendingCall) -> Answer | None:
        return Answer(kind="approve", by=self._by, widen=held.widened) if await self._seen(held) else None

    async def widen(self, held: PendingCall) -> PendingCall | None:
        """The same call with a wider sandbox, to be shown and asked about next; the one that waits stays as it is."""
        note_folded(_WIDEN)
        widening = typed_widening(await read_line("What may it reach? ") or "")
        if not widening:
            return None
        narrow = self._unwidened(held)
        wide = await self._runtime.pipeline.widened(narrow, widening | (held.widened or Widening()))
        self._narrow = narrow
        self._edited = True
        return wide

    def _unwidened(self, held: PendingCall) -> PendingCall:
        return held if held.widened is None or self._narrow is None else self._narrow

    async def reject(self, held: PendingCall) -> Answer:
        return Answer(kind="reject", by=self._by)

    async def reject_with_message(self, held: PendingCall) -> Answer | None:
        text = await read_line("What should the model know? ")
        return Answer(kind="reject", by=self._by, message=text.strip()) if text and text.strip() else None

    async def edit(self, held: PendingCall) -> PendingCall | None:
        held = self._unwidened(held)
        old = json.dumps(held.call.args, indent=2, ensure_ascii=False)
        new = await edit_text(f"{old}\n", ".json")
        if new is None:
            new = await read_line("New arguments, one line of JSON: ")
        if not new or not new.strip():
            return None
        args = read_object(new, "The arguments")
        if args == held.call.args:
            return None
        changed = await self._runtime.pipeline.change(held, args, by=self._by)
        self._edited = True
        return changed

    async def always(self, held: PendingCall) -> Answer | None:
        if not await self._seen(held):
            return None
        granted = await choose_grant(self._runtime, held, self._offers, self._by)
        return Answer(kind="approve", by=self._by) if granted else None

    async def result(self, held: PendingCall) -> Answer | None:
        text = await ask_questions(held)
        if text is None:
            raise Leave
        return Answer(kind="respond", by=self._by, message=text)

    async def details(self, held: PendingCall) -> None:
        await page(HeldView(held).details())
        self._whole_was_shown(held)

    async def _seen(self, held: PendingCall) -> bool:
        """Whether all of it was shown before; if not, it is shown now, and asked about again."""
        if self._cut:
            note_folded("Not all of it was shown. This is the whole:")
            await page(HeldView(held).uncut())
            self._whole_was_shown(held)
            return False
        return True

    def _whole_was_shown(self, held: PendingCall) -> None:
        self._cut = False
        if held.widened is None:
            note_shown(self._runtime.workspace.state, [held])


def _is_contained(asker: TerminalAsker, held: PendingCall) -> bool:
    around = None if held.proposal is None else held.proposal.surroundings
    return around is not None and around.sandbox.startswith("contained")


def typed_widening(text: str) -> Widening:
    """Raises `CallError` for what means nothing."""
    return all_of(_piece(piece.strip()) for piece in text.split(",") if piece.strip())


def absolute(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths as the person's own shell would mean them."""
    return tuple(str(Path(path).expanduser().absolute()) for path in paths)


def _piece(piece: str) -> Widening:
    word, _, path = piece.partition(" ")
    if word == "read" and path:
        return Widening(read=absolute((path.strip(),)))
    if word == "write" and path:
        return Widening(write=absolute((path.strip(),)))
    if piece == "network":
        return Widening(network=True)
    if piece == "outside":
        return Widening(outside=True)
    if path or word in ("read", "write"):
        raise CallError(f"Cannot read {piece!a}. Use a host, network, read PATH, write PATH or outside.")
    return Widening(hosts=(word,))


class Answered(Exception):
    """The answer was taken."""


def _runs(asker: TerminalAsker, held: PendingCall) -> bool:
    """A tool without code cannot be run, only answered."""
    return not held.definition_only


def _has_offers(asker: TerminalAsker, held: PendingCall) -> bool:
    """A wider sandbox is for one call; to have it each time takes a command rule."""
    return asker.can_always and held.widened is None


KEYS: Final = (
    Key("y", "yes", TerminalAsker.approve, _runs),
    Key("n", "no", TerminalAsker.reject),
    Key("m", "no, with a message", TerminalAsker.reject_with_message),
    Key("e", "edit the arguments", TerminalAsker.edit, _runs),
    Key("a", "always allow", TerminalAsker.always, _has_offers),
    Key("w", "widen the sandbox", TerminalAsker.widen, _is_contained),
    Key("r", "give the result yourself", TerminalAsker.result),
    Key("d", "details", TerminalAsker.details),
    Key("q", "quit, leave it pending", TerminalAsker.leave),
)


def _legend(keys: Iterable[tuple[str, str]]) -> str:
    words = "  ".join(f"[{key}] {words}".replace(" ", "\N{NO-BREAK SPACE}") for key, words in keys)
    wrapped = textwrap.fill(words, screen_width(sys.stderr) - 1, break_long_words=False, break_on_hyphens=False)
    lines = wrapped.replace("\N{NO-BREAK SPACE}", " ").split("\n")
    return "\n".join(part for line in lines for part in sentence(line, sys.stderr))
