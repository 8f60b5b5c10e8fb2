"""The result of a call, and its attachments."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from holdfast.contract.enums import EXIT_CODES, Failure, State
from holdfast.contract.json import Args, Doc, Identifier, Json


class Attachment(Struct, frozen=True, kw_only=True, tag_field="type", tag="attachment"):
    """Content other than text: an image, audio or a file. `digest` and `size` are computed from `data`.

    Without `data` it is a link (`uri`), or stored content that was not loaded or is gone (`digest`).
    """

    kind: Literal["image", "audio", "file"]
    digest: Identifier = ""
    """The SHA-256 of the content; empty for a link."""
    size: int = 0
    """Of the content, in bytes."""
    mime_type: str
    data: bytes = b""
    name: str | None = None
    uri: str | None = None
    audience: Literal["everyone", "person"] = "everyone"
    """`person`: interfaces show it to the person, and the model is only told about it."""
    path: str | None = None
    """A file with the content that tools can read, if the interface keeps one. Never stored or sent."""

    def __post_init__(self) -> None:
        # Whatever was given: a digest that disagrees with the bytes would let them pass for other content.
        if self.data and type(self.data) is bytes:
            force_setattr(self, "digest", sha256(self.data).hexdigest())
            force_setattr(self, "size", len(self.data))

    def without_data(self) -> Attachment:
        """The same attachment with only its digest and size."""
        return replace(self, data=b"")


class Result(Struct, frozen=True, dict=True):
    """The result of a call; every call has exactly one. `output` is text, `structured` is the same as JSON."""

    success: Annotated[bool, Doc("whether the tool did what was asked")]
    output: Annotated[str, Doc("what the tool returned, as text")] = ""
    error: Annotated[str | None, Doc("what went wrong, in a sentence, or null")] = None
    structured: Annotated[Json, Doc("what the tool returned, as JSON, or null")] = None
    metadata: Annotated[Args, Doc("facts about the output, such as whether it was cut")] = field(
        default_factory=dict[str, Json]
    )
    attachments: Annotated[tuple[Attachment, ...], Doc("an object `attachment` per image, audio or file")] = ()
    state: Annotated[State, Doc("how the call ended, or that it is pending, approved or running")] = State.DONE
    failure: Annotated[Failure | None, Doc("which kind of failure it is, or null")] = None
    call_id: Annotated[Identifier, Doc("the id of the call")] = ""

    @property
    def text(self) -> str:
        """The text for the model: the output, or the error with any partial output."""
        if self.success:
            return self.output
        error = self.error or "Unknown error"
        return f"{error}\n\nPartial output:\n{self.output}" if self.output else error

    @property
    def withheld(self) -> bool:
        """Whether the call read a file that may hold secrets: interfaces show its content, and keep no copy of it."""
        return self.metadata.get("withheld") is True

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.state, 1)

    @property
    def exception(self) -> BaseException | None:
        """The exception that the tool raised, only in the process that ran it. Never stored, sent or compared."""
        return self.__dict__.get("_exception")


def with_exception(result: Result, error: BaseException | None) -> Result:
    """Attach the exception to the result and return it. `msgspec.structs.replace` drops it."""
    if error is not None:
        force_setattr(result, "_exception", error)
    return result


def ok(output: str = "", *, structured: Json = None, attachments: tuple[Attachment, ...] = ()) -> Result:
    return Result(True, output, None, structured, attachments=attachments)


def fail(error: str, *, output: str = "", structured: Json = None) -> Result:
    return Result(False, output, error, structured, state=State.FAILED, failure=Failure.TOOL_ERROR)
