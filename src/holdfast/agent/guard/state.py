"""Where a turn stands: what was searched for, found, read and refused. Found by replaying it, never kept."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.agent.guard.evidence import Candidate, same_path
from holdfast.agent.guard.matter import Matter
from holdfast.agent.guarding import Refused


class Seen(Struct, frozen=True):
    """A file that was read."""

    path: str
    content: str | None
    """None where the typed result has no text."""
    key: str


class Searched(Struct, frozen=True):
    query: str
    found: bool


class State(Struct, frozen=True, kw_only=True):
    matter: Matter
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
        return self.matter.gathers and not self.blind

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

    def is_candidate(self, path: str) -> bool:
        return any(same_path(path, each.path) for each in self.candidates)

    def candidate_attempts(self) -> int:
        return sum(map(self.is_candidate, self.attempts))
