"""What is judged: one call with all that a rule may look at, and the context user functions are handed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Caller, NamedFile
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json
from holdfast.contract.vocabulary import Risk
from holdfast.rules.confinement import Confinement, unconfined

_NOBODY = Caller()


class Question(Struct, frozen=True, kw_only=True):
    """May this call run?"""

    tool: Tool
    args: Args
    call_id: str
    name_used: str
    cwd: str
    caller: Caller
    risk: Risk
    """The proposal's, else the tool's."""
    paths: tuple[Path, ...]
    """What the call touches: absolute, symlinks resolved, one for each path the tool named."""
    root: Path | None
    session: str
    document: str | None = None
    confinement: Callable[[], Confinement] = unconfined
    """What would hold the call; found out only where that matters."""
    files: Callable[[], tuple[NamedFile, ...]] = tuple
    """The project files its command names, where it does more than read; read only where that matters."""

    @classmethod
    def about(cls, tool: Tool, caller: Caller = _NOBODY) -> Question:
        """The question with no call in it, for rules that look only at the tool, or at tool and caller."""
        return cls(
            tool=tool, args={}, call_id="", name_used=tool.name, cwd="", caller=caller,
            risk=tool.risk, paths=(), root=None, session="",
        )  # fmt: skip

    def with_own_args(self) -> Question:
        """The same question over a copy of the arguments, for code that might change them."""
        return replace(self, args=cast(Args, _copied(self.args)))


class ResolveContext(Struct, frozen=True):
    """The third argument of a resolver."""

    question: Question
    bufnr: int | None = None

    @property
    def call_id(self) -> str:
        return self.question.call_id

    @property
    def tool_id(self) -> str:
        """The seed's word for the call id."""
        return self.question.call_id

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool, the canonical one first."""
        return self.question.tool.names

    @property
    def caller(self) -> Caller:
        return self.question.caller

    @property
    def cwd(self) -> str:
        return self.question.cwd

    @property
    def document(self) -> str | None:
        return self.question.document


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
