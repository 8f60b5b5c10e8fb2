"""Where a turn stands: what was searched for, found, read and refused, and what is still to be read for evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from holdfast.agent.guarding import Refused
from holdfast.guardrails.evidence import Candidate, Gate, best, plain_path, refers_to, rejecting, same_path
from holdfast.guardrails.intent import Mode
from holdfast.guardrails.turn_facts import TurnFacts
from holdfast.models.requests.literals import quoted

PREFERRED: Final = "preferred"
"""A question about usages: the file that fits best is read at once."""
REDIRECT: Final = "redirect"
"""A file was read that the search had not found."""
UNREAD: Final = "unread"
"""The model answered before it had read what was found."""


class Seen(Struct, frozen=True):
    """A file that was read."""

    path: str
    content: str | None
    """None where the typed result has no text."""


class Searched(Struct, frozen=True):
    query: str
    found: bool


class Evidence(Struct, frozen=True):
    shown: tuple[str, ...]
    """Files that were read and count."""
    rejected: tuple[tuple[str, Gate], ...]
    """Files that were found and read, and do not."""


class Due(Struct, frozen=True):
    """A file the runtime reads itself."""

    what: str
    """What for: each reason counts once."""
    path: str
    why: str


class State(Struct, frozen=True, kw_only=True):
    """Found by replaying a turn, never kept."""

    turn: TurnFacts
    rounds: int = 0
    """Replies that asked for calls, the runtime's own too."""
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    """By rule, in how many replies it refused something: a model is corrected between two replies, not within one."""
    just_refused: tuple[Refused, ...] = ()
    """In the last reply."""
    searches: tuple[Searched, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """The files of the last search that found something."""
    reads: tuple[Seen, ...] = ()
    attempts: tuple[str, ...] = ()
    """Paths of all reads that ran, whatever came of them."""
    tried: tuple[str, ...] = ()
    """Paths of all reads that were asked for and have an end."""
    fresh: frozenset[str] = frozenset()
    """Reads that would give the same again: nothing has changed since."""
    last_done: str = ""
    """The last call that succeeded."""
    acts: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often the runtime asked for calls itself, by what for."""
    answered: bool = False
    """The evidence that was asked for is there."""
    blind: bool = False
    """What some call brought is not known in its typed form: nothing can be said about what is missing."""
    looked: bool = False
    """Some call succeeded."""

    @property
    def gathers(self) -> bool:
        """An answer needs evidence, and it can be judged."""
        return self.turn.gathers and not self.blind

    @property
    def paths_read(self) -> list[str]:
        return list(dict.fromkeys(each.path for each in self.reads))

    @property
    def search_closed(self) -> bool:
        """One search, and a second only if the first was empty."""
        return any(each.found for each in self.searches) or len(self.searches) > 1

    @property
    def has_untried(self) -> bool:
        """A file was found that nobody has tried to read."""
        return any(not any(same_path(each.path, path) for path in self.tried) for each in self.candidates)

    @property
    def next_best(self) -> str | None:
        return best(self.turn.mode, self.candidates, self.tried)

    def is_candidate(self, path: str) -> bool:
        return any(same_path(path, each.path) for each in self.candidates)

    def candidate_attempts(self) -> int:
        return sum(map(self.is_candidate, self.attempts))

    def evidence(self) -> Evidence:
        contents: dict[str, str] = {}
        for read in self.reads:
            if read.content is not None:
                path = plain_path(read.path)
                contents[path] = contents.get(path, "") + read.content
        shown: list[str] = []
        rejected: list[tuple[str, Gate]] = []
        for path, content in contents.items():
            if not self.is_candidate(path):
                shown += [path] if self._is_asked_about(path) or self.turn.shows(path, content) else []
            elif (gate := rejecting(self.turn.mode, path, content, self.candidates)) is None:
                shown.append(path)
            else:
                rejected.append((path, gate))
        return Evidence(tuple(shown), tuple(rejected))

    def is_answered(self) -> bool:
        """Whether enough files were read that count; where there are no more to be read, one is enough."""
        return self.gathers and bool(self.reads) and self._is_enough(self.evidence().shown)

    def has_evidence(self) -> bool:
        """Whether it may be answered: what was read before the message counts too, and leaves the tools as they are."""
        return self.answered or self._is_enough({*self.evidence().shown, *self.turn.known})

    def due(self) -> Due | None:
        """What the runtime reads without asking the model."""
        path = self.next_best if self.gathers and not self.answered and self.candidates else None
        if path is None:
            return None
        evidence = self.evidence()
        for read, gate in evidence.rejected:
            if gate not in self.acts:
                return Due(gate, path, f"{quoted(read)} {gate}")
        if self.turn.mode is Mode.USAGE and self.acts.get(PREFERRED, 0) < self.turn.wanted:
            return Due(PREFERRED, path, f"{quoted(path)} is the likeliest place")
        strays = [read for read in self.attempts if not (self.is_candidate(read) or self._is_asked_about(read))]
        strays = [read for read in strays if plain_path(read) not in evidence.shown]
        if strays and REDIRECT not in self.acts and not self.candidate_attempts():
            return Due(REDIRECT, path, f"{quoted(strays[-1])} is not among the files that were found")
        return None

    def unread(self) -> Due | None:
        """What the runtime reads when the model answers without evidence."""
        path = self.next_best if self.candidates and UNREAD not in self.acts else None
        return None if path is None else Due(UNREAD, path, "the answer came before any file that shows it was read")

    def _is_enough(self, shown: Collection[str]) -> bool:
        if len(shown) >= self.turn.wanted:
            return True
        return len(shown) > 0 and self.search_closed and self.next_best is None

    def _is_asked_about(self, path: str) -> bool:
        """The message names it and asks what is in it: it needs no search to be found."""
        if self.turn.mode is Mode.USAGE or self.turn.wanted > 1:
            return False
        return any(refers_to(name, path) for name in self.turn.named)
