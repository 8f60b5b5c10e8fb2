"""The context that a tool receives while it runs: paths, sandbox, truncation, storage, progress, elicitation.

Tools depend on these protocols only, never on the runtime.
"""

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
    """The kept part of a text with its original size. Lines are counted by newline characters."""

    content: str
    truncated: bool = False
    truncated_by: Literal["lines", "bytes"] | None = None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    """`tail` only: the last line exceeds the limit, and `content` is its end."""
    first_line_exceeds_limit: bool = False
    """`head` only: the first line exceeds the limit, and `content` is empty."""


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
        """Return an absolute path. Relative paths start at the document's folder, else at the project root."""
        ...

    def confine(self, path: str, *, mutating: bool = False) -> Path:
        """Return an absolute path inside the project. Relative paths start at the project root, as in built-in tools.

        Raises `PathRefused` for a path outside the project.
        """
        ...


class SandboxTools(Protocol):
    @property
    def profile(self) -> str: ...
    def is_path_writable(self, path: str | Path) -> bool: ...
    def is_path_readable(self, path: str | Path) -> bool: ...
    def is_path_own(self, path: str | Path) -> bool:
        """Whether the path belongs to holdfast's state or configuration, which no tool may read or change."""
        ...

    def is_path_secret(self, path: str | Path) -> bool:
        """Whether reading the path needs approval. Its content must not be shown or stored."""
        ...

    def wrap_command(self, command: Sequence[str]) -> Sequence[str]:
        """Return the sandboxed argv. Raises `SandboxRefused` if a sandbox is required and none is available."""
        ...

    async def run(self, command: Command) -> CommandResult:
        """Run a command to its end. If the call is stopped, kills the whole process tree and returns.

        Raises `SandboxRefused` if a sandbox is required and none is available.
        """
        ...

    async def preview(self, command: Command) -> CommandPreview:
        """Return how a command would run, without running it."""
        ...

    def undo_note(self, command: Command) -> str | None:
        """Return why the command's changes could not be undone; None if they could. For previews."""
        ...


class StorageTools(Protocol):
    """Storage that outlives the call: undo images and spilled output."""

    def before_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Record a path's content before the call changes it; None if the path does not exist."""
        ...

    def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Record a path's content after the call. Undo refuses to restore a path that changed since."""
        ...

    def read_spill(self, call_id: str, offset: int, limit: int) -> tuple[str, int]:
        """Return lines of a spilled output, starting at line `offset` (1-based), and the total number of lines."""
        ...


class Context(Protocol):
    """One per execution. Its parts are created on first use."""

    @property
    def call_id(self) -> str: ...
    @property
    def tool_id(self) -> str:
        """The call id from the model; `call_id` if there is none."""
        ...

    @property
    def parent_call_id(self) -> str | None: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def session(self) -> str:
        """The document, conversation or program that makes the call: what a service keeps between calls is per
        session."""
        ...

    @property
    def cwd(self) -> Path: ...
    @property
    def root(self) -> Path | None: ...
    @property
    def timeout(self) -> float | None:
        """The time limit of this call in seconds."""
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
    def storage(self) -> StorageTools: ...
    @property
    def cancelled(self) -> bool: ...

    @property
    def dry_run(self) -> bool:
        """Check the arguments and return before any side effect."""
        ...

    @property
    def caps(self) -> OutputSize:
        """How much output a tool may return: `small` for models with a small context window."""
        ...

    def config(self) -> Args | None:
        """Return a deep copy of this tool's configuration, None if there is none."""
        ...

    def secret(self, scope: str) -> str:
        """Fetch a secret that the tool declared. The value is redacted from all output."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None: ...
    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None: ...
    def stream(self, text: str) -> None: ...
    async def call(self, name: str, args: Args | None = None) -> Result:
        """Call another tool through the whole pipeline, with at most the rights of this call."""
        ...

    async def elicit(self, *questions: Question) -> tuple[ElicitationReply, ...]:
        """Ask the user all questions at once. The call's timeout is paused meanwhile."""
        ...

    def service(self, protocol: type[T]) -> T:
        """Return the long-lived service that the runtime provides for a protocol."""
        ...
