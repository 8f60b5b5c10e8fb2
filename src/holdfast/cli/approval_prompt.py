"""The approval prompt: shows a pending call to the person at the terminal and reads their answer as single keys."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from holdfast.cli.arguments import parse_object
from holdfast.cli.console import print_err, print_err_lines, screen_width
from holdfast.cli.layout import print_message, quote, wrap_sentence
from holdfast.cli.pending_view import PendingView, record_shown
from holdfast.cli.project_context import whoami
from holdfast.cli.prompt import PromptDismissed, exclusive_terminal, page, read_key, read_line
from holdfast.cli.prompt import edit_text as edit_text
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import CallError, HoldfastError, NotPending, UnknownCall
from holdfast.contract.widening import Widening, merge_widenings
from holdfast.rules.grant_text import FULL_WIDTH, describe_grant
from holdfast.rules.grants import Width
from holdfast.runtime.approvals import describe_changes
from holdfast.runtime.grant_coverage import GrantOption
from holdfast.runtime.results import approvals_so_far
from holdfast.runtime.runtime import Runtime
from holdfast.store.entries import Grant, Scope
from holdfast.store.process_identity import own_identity
from holdfast.text.escape import escape, escape_name, escape_once
from holdfast.text.times import format_time

ASK_USER: Final = "ask.user"
_WIDEN: Final = "Type a host, network, read PATH, write PATH or outside. Separate several with commas."


async def ask_questions(pending: PendingCall) -> str | None:
    """Ask the model's questions, or for the result; return the answer, or None at the end of input."""
    questions = _questions_of(pending)
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
    print_err_lines(
        (*quote(text, sys.stderr).lines, *(quote(numbered, sys.stderr, show=escape_once).lines if options else ()))
    )
    answer = ""
    while not answer.strip():
        typed = await read_line("Your answer (a number, or text): " if options else "Your answer: ")
        if typed is None:
            return None
        answer = typed
    choice = answer.strip()
    return options[int(choice) - 1] if choice.isdecimal() and 0 < int(choice) <= len(options) else answer


def _questions_of(pending: PendingCall) -> list[tuple[str, list[str]]]:
    if pending.call.tool != ASK_USER:
        return []
    given = cast(list[dict[str, Any]], pending.call.args.get("questions") or [])
    return [(str(item.get("question", "")), list(item.get("options") or [])) for item in given]


_SCOPES: Final[dict[Scope, str]] = {"project": "in this project", "user": "in all your projects"}


async def choose_grant(runtime: Runtime, pending: PendingCall, found: Sequence[GrantOption], by: str) -> bool:
    """List the possible grants and read a number; return whether a grant was created."""
    print_err("Always allow, without asking:")
    for number, option in enumerate(found, 1):
        words = describe_grant(option.spec.tool, option.spec.pattern, FULL_WIDTH)
        print_err_lines(quote(f"{number}. {words}, {_SCOPES[option.scope]}", sys.stderr, show=escape_once).lines)
    numbers = [str(number) for number in range(1, len(found) + 1)]
    span = "1" if len(numbers) == 1 else f"1-{len(numbers)}"
    legend = _key_legend([(span, "create this grant and run the call"), ("n", "back")])
    key = await read_key(f"{legend}\n> ", (*numbers, "n", "q"))
    if key not in numbers:
        return False
    chosen = found[int(key) - 1]
    await create_grant(runtime, pending, chosen.scope, by, chosen.width)
    return True


async def create_grant(
    runtime: Runtime,
    pending: PendingCall,
    scope: Scope,
    by: str,
    width: Width = "exact",
    *,
    expires: float | None = None,
) -> Grant:
    """Create a grant for this call, and print how to revoke it."""
    grant = await runtime.allow(pending, scope, by=by, width=width, expires=expires)
    until = "" if expires is None else f", until {format_time(expires)}"
    print_message(f"Created grant {grant.id}{until}. Revoke it with `holdfast grants revoke {grant.id}`.")
    return grant


Step = Callable[["TerminalAsker", PendingCall], Awaitable["Answer | PendingCall | None"]]
"""Returns the answer, or the call to ask about next: a changed one, or None for the same one."""


class PromptKey(NamedTuple):
    """A key at the prompt: one entry of `KEYS`."""

    key: str
    label: str
    step: Step
    available: Callable[[TerminalAsker, PendingCall], bool] = lambda asker, pending: True


class TerminalAsker:
    """An asker for `Runtime`. It delivers the answers to the pipeline itself, and asks again if one is refused."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by = whoami()
        self._asked: PendingCall | None = None
        """The call as it was last shown here."""
        self.answered = False
        """Whether the call was answered here, not at another interface."""
        self._edited = False
        """Whether the person changed the call here."""
        self._narrow: PendingCall | None = None
        """The pending call, while the prompt shows it with a wider sandbox."""
        self._cut = False
        """Whether a part of the call was not shown yet."""
        self._grant_options: list[GrantOption] = []
        """The grants that may be created for the call."""

    @property
    def can_always(self) -> bool:
        return bool(self._grant_options)

    @property
    def asked(self) -> bool:
        return self._asked is not None

    async def __call__(self, pending: PendingCall) -> None:
        async with exclusive_terminal():
            await self._ask_until_answered(pending)

    async def _ask_until_answered(self, pending: PendingCall) -> None:
        if own_identity() in pending.approved_by:
            print_message(f"You have approved call {escape_name(pending.call.id)}: {approvals_so_far(pending)}.")
            return
        shown: PendingCall | None = None
        try:
            while True:
                if pending is not shown:
                    self._explain_change(pending)
                    await self._show(pending)
                    shown = self._asked = pending
                pending = await self._ask(pending)
        except _AnswerAccepted:
            self.answered = True
        except PromptDismissed:
            return
        except asyncio.CancelledError:
            print_err()
            raise

    async def _ask(self, pending: PendingCall) -> PendingCall:
        """Ask one question; return the call to ask about next, or raise `_AnswerAccepted`."""
        step = TerminalAsker.result if pending.call.tool == ASK_USER else await self._choose(pending)
        try:
            answer = await step(self, pending)
            if not isinstance(answer, Answer):
                return pending if answer is None else answer
            about = pending if answer.widen else self._unwidened(pending)
            self.answered = True  # set first: the call may run even if this is cancelled before `answer` returns
            answered = await self._runtime.lifecycle.answer(pending.call.id, answer, digest=about.digest)
            if answered.state is State.PENDING:
                print_message(f"Call {escape_name(pending.call.id)} has {approvals_so_far(answered)}.")
        except (NotPending, UnknownCall) as error:
            print_message(escape_once(str(error)))
        except HoldfastError as error:
            self.answered = False
            print_message(escape_once(str(error)), "Not possible:", "red")
            return pending
        raise _AnswerAccepted

    async def _show(self, pending: PendingCall) -> None:
        print_err()
        if pending.call.tool == ASK_USER:
            print_err("The model asks you:")
            return
        tool = self._runtime.registry.find(pending.call.tool)
        view = PendingView(pending, risk=None if tool is None else tool.risk)
        await page(view.short())
        self._cut = not view.short_is_whole
        self._grant_options = [] if pending.definition_only else self._runtime.grant_coverage.options(pending, self._by)
        print_err()
        if view.short_is_whole:
            self._whole_was_shown(pending)

    def _explain_change(self, pending: PendingCall) -> None:
        """Say why the call is shown again: it is not the call that was shown before."""
        if self._asked is not None and self._asked.digest != pending.digest and not self._edited:
            changed = describe_changes(self._asked, pending)
            print_message(f"The call changed since it was shown: {escape_once(changed)}. Review it again.")
        self._edited = False

    async def _choose(self, pending: PendingCall) -> Step:
        keys = {key.key: key for key in KEYS if key.available(self, pending)}
        legend = _key_legend((key.key, key.label) for key in keys.values())
        key = await read_key(f"{legend}\n> ", keys, "Press one of the keys above.")
        if key is None:
            raise PromptDismissed
        return keys[key].step

    async def leave(self, pending: PendingCall) -> None:
        raise PromptDismissed

    async def approve(self, pending: PendingCall) -> Answer | None:
        return Answer(kind="approve", by=self._by, widen=pending.widened) if await self._ensure_shown(pending) else None

    async def widen(self, pending: PendingCall) -> PendingCall | None:
        """Return the call with a wider sandbox, to be shown and asked about next; the pending call does not change."""
        print_message(_WIDEN)
        widening = parse_widening(await read_line("Allow access to: ") or "")
        if not widening:
            return None
        narrow = self._unwidened(pending)
        wide = await self._runtime.lifecycle.with_widening(narrow, widening | (pending.widened or Widening()))
        self._narrow = narrow
        self._edited = True
        return wide

    def _unwidened(self, pending: PendingCall) -> PendingCall:
        return pending if pending.widened is None or self._narrow is None else self._narrow

    async def reject(self, pending: PendingCall) -> Answer:
        return Answer(kind="reject", by=self._by)

    async def reject_with_message(self, pending: PendingCall) -> Answer | None:
        text = await read_line("Message to the model: ")
        return Answer(kind="reject", by=self._by, message=text.strip()) if text and text.strip() else None

    async def edit(self, pending: PendingCall) -> PendingCall | None:
        pending = self._unwidened(pending)
        old = json.dumps(pending.call.args, indent=2, ensure_ascii=False)
        new = await edit_text(f"{old}\n", ".json")
        if new is None:
            new = await read_line("New arguments, as one line of JSON: ")
        if not new or not new.strip():
            return None
        args = parse_object(new, "The arguments")
        if args == pending.call.args:
            return None
        changed = await self._runtime.lifecycle.edit(pending, args, by=self._by)
        self._edited = True
        return changed

    async def always(self, pending: PendingCall) -> Answer | None:
        if not await self._ensure_shown(pending):
            return None
        granted = await choose_grant(self._runtime, pending, self._grant_options, self._by)
        return Answer(kind="approve", by=self._by) if granted else None

    async def result(self, pending: PendingCall) -> Answer | None:
        text = await ask_questions(pending)
        if text is None:
            raise PromptDismissed
        return Answer(kind="respond", by=self._by, message=text)

    async def details(self, pending: PendingCall) -> None:
        await page(PendingView(pending).details())
        self._whole_was_shown(pending)

    async def _ensure_shown(self, pending: PendingCall) -> bool:
        """Return whether all of the call was shown before; if not, show it now, to be asked about again."""
        if self._cut:
            print_message("Part of the call was hidden. This is all of it:")
            await page(PendingView(pending).uncut())
            self._whole_was_shown(pending)
            return False
        return True

    def _whole_was_shown(self, pending: PendingCall) -> None:
        self._cut = False
        if pending.widened is None:
            record_shown(self._runtime.workspace.state, [pending])


def _is_contained(asker: TerminalAsker, pending: PendingCall) -> bool:
    around = None if pending.proposal is None else pending.proposal.surroundings
    return around is not None and around.sandbox.startswith("contained")


def parse_widening(text: str) -> Widening:
    """Parse what the person typed at the widen prompt. Raise `CallError` if it means nothing."""
    return merge_widenings(_piece(piece.strip()) for piece in text.split(",") if piece.strip())


def absolute_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return absolute paths, with ~ expanded as in the person's shell."""
    return tuple(str(Path(path).expanduser().absolute()) for path in paths)


def _piece(piece: str) -> Widening:
    word, _, path = piece.partition(" ")
    if word == "read" and path:
        return Widening(read=absolute_paths((path.strip(),)))
    if word == "write" and path:
        return Widening(write=absolute_paths((path.strip(),)))
    if piece == "network":
        return Widening(network=True)
    if piece == "outside":
        return Widening(outside=True)
    if path or word in ("read", "write"):
        raise CallError(f"Cannot read {piece!a}. Use a host, network, read PATH, write PATH or outside.")
    return Widening(hosts=(word,))


class _AnswerAccepted(Exception):
    """The pipeline accepted the answer."""


def _can_run(asker: TerminalAsker, pending: PendingCall) -> bool:
    """A tool without code cannot run; a person can only respond for it."""
    return not pending.definition_only


def _can_always(asker: TerminalAsker, pending: PendingCall) -> bool:
    """A wider sandbox is for one call. To widen a command every time takes a rule in approval.commands."""
    return asker.can_always and pending.widened is None


KEYS: Final = (
    PromptKey("y", "yes", TerminalAsker.approve, _can_run),
    PromptKey("n", "no", TerminalAsker.reject),
    PromptKey("m", "no, with a message", TerminalAsker.reject_with_message),
    PromptKey("e", "edit the arguments", TerminalAsker.edit, _can_run),
    PromptKey("a", "always allow", TerminalAsker.always, _can_always),
    PromptKey("w", "widen the sandbox", TerminalAsker.widen, _is_contained),
    PromptKey("r", "respond yourself", TerminalAsker.result),
    PromptKey("d", "details", TerminalAsker.details),
    PromptKey("q", "quit, leave it pending", TerminalAsker.leave),
)


def _key_legend(keys: Iterable[tuple[str, str]]) -> str:
    # No-break spaces keep a key and its label on one line.
    text = "  ".join(f"[{key}] {label}".replace(" ", "\N{NO-BREAK SPACE}") for key, label in keys)
    wrapped = textwrap.fill(text, screen_width(sys.stderr) - 1, break_long_words=False, break_on_hyphens=False)
    lines = wrapped.replace("\N{NO-BREAK SPACE}", " ").split("\n")
    return "\n".join(part for line in lines for part in _fit_line(line))


def _fit_line(line: str) -> Iterable[str]:
    """Wrap a line of the legend only if even one key is wider than the terminal: wrapping joins double spaces."""
    return [line] if len(line) < screen_width(sys.stderr) else wrap_sentence(line, sys.stderr)
