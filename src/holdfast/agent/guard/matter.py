"""What stays the same during a turn: the rules, the tools, and what the message asks for."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.guard.asking import Asking, Earlier, Mode, read_message
from holdfast.agent.guard.calls import (
    CHANGES,
    LIST,
    READ,
    SEARCH,
    Called,
    Catalogue,
    End,
    end_of,
    facts,
    is_inside,
    is_told,
    may_have_changed,
)
from holdfast.agent.guard.evidence import cited, is_plain, plain_path, shows_alone
from holdfast.agent.guard.phrases import is_assent
from holdfast.agent.guarding import Round, Step, Turn
from holdfast.agent.surfaces import Surface
from holdfast.config.model import GuardrailsConfig
from holdfast.contract.tool import Tool


class Matter(Struct, frozen=True, kw_only=True):
    rules: GuardrailsConfig
    tools: Catalogue
    asking: Asking | None
    """None where the words are not all the person's: what they ask for cannot be known from them."""
    named: tuple[str, ...] = ()
    """Files the message names."""
    left: tuple[str, ...] = ()
    """The tools of the surface that there are."""
    no_folder: bool = False
    """What the message seems to keep to is none, as a search in this turn has shown."""
    known: tuple[str, ...] = ()
    """Files that were read before this message, and show what it asks for."""

    @property
    def investigates(self) -> bool:
        """Something is to be found in the code, and there are the tools to find it."""
        return self.asking is not None and self.asking.investigates and self.tools.has(SEARCH, READ)

    @property
    def gathers(self) -> bool:
        """An answer needs evidence."""
        return self.rules.evidence and self.investigates

    @property
    def mode(self) -> Mode:
        return Mode.GENERAL if self.asking is None else self.asking.mode

    @property
    def wanted(self) -> int:
        """How many files must show the answer, if there are as many."""
        return 2 if self.asking is not None and self.asking.broad else 1

    @property
    def surface(self) -> Surface | None:
        return self.asking.surface if self.rules.surfaces and self.asking is not None else None

    @property
    def scope(self) -> str | None:
        """Where calls and answers keep to, as far as the turn has not shown that there is no such place."""
        return self.asking.scope if self.rules.scope and self.asking is not None and not self.no_folder else None

    def shows(self, path: str, content: str) -> bool:
        """Whether a file no search found is evidence. It is so from the beginning to the end of a turn."""
        if self.asking is None:
            return False
        if self.rules.scope and self.asking.scope is not None and not is_inside(path, self.asking.scope):
            return False
        return shows_alone(self.mode, path, content, self.asking.names)


def matter_of(rules: GuardrailsConfig, tools: Sequence[Tool], turn: Turn) -> Matter:
    catalogue = Catalogue(tools)
    if turn.foreign:
        return Matter(rules=rules, tools=catalogue, asking=None)
    asking, named = _asked(turn, catalogue)
    left = () if asking is None else catalogue.left_by(asking.surface)
    no_folder = asking is not None and _is_no_folder(asking.scope, turn.rounds, catalogue)
    matter = Matter(rules=rules, tools=catalogue, asking=asking, named=named, left=left, no_folder=no_folder)
    return replace(matter, known=tuple(_known(matter, turn.earlier))) if matter.gathers else matter


def _asked(turn: Turn, tools: Catalogue) -> tuple[Asking | None, tuple[str, ...]]:
    """What the message asks for, and the files it names.

    "Yes" asks for what the last message that says more did, as far as the tools go; what it agrees to is in the answers
    between them.
    """
    earlier = earlier_of(turn.earlier, tools)
    if not is_assent(turn.prompt):
        return read_message(turn.prompt, earlier), tuple(cited(turn.prompt))
    meant = next((words for words in reversed(turn.before) if words is None or not is_assent(words)), "")
    if meant is None:
        return None, ()
    return Asking(surface=read_message(meant, earlier).surface), tuple(cited(meant))


def _known(matter: Matter, earlier: Sequence[Round]) -> Iterator[str]:
    """Of what was read and not changed since, or in the same reply: its calls run in any order."""
    contents: dict[str, str] = {}
    for each in earlier:
        calls = [(matter.tools.called(step.use), step) for step in each.steps]
        changes = [(called, step) for called, step in calls if may_have_changed(called, step)]
        for called, step in changes:
            changed = path_read(called, step) if called.name in CHANGES else ""
            changed = plain_path(changed) if is_plain(changed) else ""
            contents = {path: content for path, content in contents.items() if changed and path != changed}
        for called, step in calls:
            if not changes and called.name == READ and (content := text_read(step)) is not None:
                path = plain_path(path_read(called, step))
                contents[path] = contents.get(path, "") + content
    for path, content in contents.items():
        if matter.shows(path, content):
            yield path


def earlier_of(rounds: Sequence[Round], tools: Catalogue) -> Earlier:
    """What the calls of earlier turns were about, the last of each kind."""
    read = query = folder = None
    for each in reversed(rounds):
        for step in reversed(each.steps):
            called = tools.called(step.use)
            if called.name not in (READ, LIST, SEARCH) or not went_well(step):
                continue
            folder = folder or _folder(called)
            if called.name == READ:
                read = read or path_read(called, step)
            elif called.name == SEARCH:
                query = query or called.query
        if read and query and folder:
            break
    return Earlier(read, query, folder)


def path_read(called: Called, step: Step) -> str:
    """The path of a file as its typed result gives it, else as it was asked for."""
    path = facts(step.result).get("path")
    return path if isinstance(path, str) and path else called.path


def text_read(step: Step) -> str | None:
    """What a read gave, where it is text."""
    typed = facts(step.result)
    content = typed.get("content") if typed.get("encoding") == "utf8" else None
    return content if isinstance(content, str) else None


def _is_no_folder(scope: str | None, rounds: Sequence[Round], tools: Catalogue) -> bool:
    """Whether a search in it failed: words such as "client/server" only look like a path."""
    if scope is None:
        return False
    calls = ((step, tools.called(step.use)) for each in rounds for step in each.steps)
    return any(called.name == SEARCH and called.path == scope and end_of(step) is End.FAILED for step, called in calls)


def went_well(step: Step) -> bool:
    """An earlier call is only spoken of again, so that where its typed result is gone, what was told is enough."""
    if end_of(step) is End.GONE:
        return is_told(step)
    return end_of(step) is End.DONE


def _folder(called: Called) -> str:
    if called.name == READ:
        return posixpath.dirname(called.path.replace("\\", "/")) or "."
    return called.path or "."
