"""What a tool is handed while it runs. Tools write against these protocols and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from holdfast.contract.command import Command, CommandPreview, CommandResult
from holdfast.contract.elicitation import ElicitationReply, Question
from holdfast.contract.json import Args
from holdfast.contract.result import Result

T = TypeVar("T")
OutputSize = Literal["standard", "small"]


class TruncatedText(Struct, frozen=True, kw_only=True):
    """What is left of a text that was cut, and what it was; lines are counted by newline characters."""

    content: str
    truncated: bool = False
    truncated_by: Literal["lines", "bytes"] | None = None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    """`tail` only: the last line alone was too long, and this is the end of it."""
    first_line_exceeds_limit: bool = False
    """`head` only: the first line alone was too long, and nothing is kept."""


class TruncateTools(Protocol):
    @property
    def MAX_LINES(self) -> int: ...  # noqa: N802 - a constant of the call
    @property
    def MAX_BYTES(self) -> int: ...  # noqa: N802

    def head(self, text: str, max_lines: int | None = None, max_bytes: int | None = None) -> TruncatedText: ...
    def tail(self, text: str, max_lines: int | None = None, max_bytes: int | None = None) -> TruncatedText: ...
    def format_size(self, size: int) -> str: ...


class PathTools(Protocol):
    def resolve(self, path: str) -> Path:
        """An absolute path; relative ones are taken from the document's folder, else from the root."""
        ...

    def confine(self, path: str, *, mutating: bool = False) -> Path:
        """An absolute path in the project; relative ones are taken from its root, as built-in tools take and print
        them. Refuses (`PathRefused`) what lies outside."""
        ...


class SandboxTools(Protocol):
    @property
    def profile(self) -> str: ...
    def is_path_writable(self, path: str | Path) -> bool: ...
    def is_path_readable(self, path: str | Path) -> bool: ...
    def is_path_own(self, path: str | Path) -> bool:
        """Whether it is state or configuration of holdfast, which no tool reads or changes."""
        ...

    def is_path_secret(self, path: str | Path) -> bool:
        """Whether a person must be asked before a path is read: what is in it is not to be shown or kept."""
        ...

    def wrap_command(self, command: Sequence[str]) -> Sequence[str]:
        """The command as it must be run; raises `SandboxRefused` when a sandbox is wanted and none is there."""
        ...

    async def run(self, command: Command) -> CommandResult:
        """Run a command to its end. When the call is stopped, everything it started is killed and this returns.

        Raises `SandboxRefused` when a sandbox is wanted and none is there.
        """
        ...

    async def preview(self, command: Command) -> CommandPreview:
        """How a command would run, for previews."""
        ...

    def undo_note(self, command: Command) -> str | None:
        """Why what the command changes could not be undone; None if it could. For previews."""
        ...


class CallStorage(Protocol):
    """Where a tool leaves what must outlive the call."""

    def before_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Remember what a path held before the call changed it; None if it did not exist."""
        ...

    def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Remember what the call left there: undo refuses where that is no longer so."""
        ...

    def read_spill(self, call_id: str, offset: int, limit: int) -> tuple[str, int]:
        """Lines kept from a cut output (from line `offset`, 1-based) and how many lines there are in all."""
        ...


class Context(Protocol):
    """One per execution. Parts are made on first use."""

    @property
    def call_id(self) -> str: ...
    @property
    def tool_id(self) -> str:
        """The id the model gave the call; `call_id` where it gave none."""
        ...

    @property
    def parent_call_id(self) -> str | None: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def root(self) -> Path | None: ...
    @property
    def timeout(self) -> float | None:
        """Seconds this call may take."""
        ...

    @property
    def document_dir(self) -> Path | None: ...
    @property
    def document_name(self) -> str | None: ...
    @property
    def path(self) -> PathTools: ...
    @property
    def sandbox(self) -> SandboxTools: ...
    @property
    def truncate(self) -> TruncateTools: ...
    @property
    def storage(self) -> CallStorage: ...
    @property
    def cancelled(self) -> bool: ...

    @property
    def dry_run(self) -> bool:
        """Nothing may happen: check what the call would meet, and return before it acts."""
        ...

    @property
    def caps(self) -> OutputSize:
        """How much a tool may show: `small` for models with little room."""
        ...

    def config(self) -> Args | None:
        """A deep copy of this tool's part of the configuration, None without one."""
        ...

    def secret(self, scope: str) -> str:
        """The value of a secret the tool declared; fetched now, redacted everywhere."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None: ...
    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None: ...
    def stream(self, text: str) -> None: ...
    async def call(self, name: str, args: Args | None = None) -> Result:
        """Another tool, through the whole path, with no more rights than this call has."""
        ...

    async def elicit(self, *questions: Question) -> tuple[ElicitationReply, ...]:
        """Ask the person behind the interface, all questions at once; the call's time does not run meanwhile."""
        ...

    def service(self, protocol: type[T]) -> T:
        """A long-lived helper the runtime was given, by its protocol."""
        ...
