"""Attachments of a document: the links that name them, and what a link stands for when it is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat import grammar
from holdfast.chat.attachment_files import AttachmentFiles, UnusableFile
from holdfast.chat.parser import AttachmentLink
from holdfast.chat.state_file import CallKey, StoredAttachment, storable
from holdfast.config.config import OutputConfig
from holdfast.contract.result import Attachment, Result
from holdfast.text.attachments import describe, file_name
from holdfast.tools.files.pages import SNIFFED_BYTES, attachment_kind, mime_type


class WrittenAttachments(Struct, frozen=True):
    links: tuple[str, ...]
    """The lines for the document."""
    stored: tuple[StoredAttachment, ...]


def without_withheld(result: Result) -> Result:
    """The result for a document: content that may hold secrets gets no file, which tools could read without asking."""
    secret = [item for item in result.attachments if item.data] if result.withheld else []
    if not secret:
        return result
    lines = "\n".join(f"[{describe(item)} was not kept: it may hold secrets.]" for item in secret)
    said = result.output if result.success else result.error
    joined = f"{said}\n\n{lines}" if said else lines
    links = tuple(item for item in result.attachments if not item.data)
    return replace(result, attachments=links, **{"output" if result.success else "error": joined})


def write_attachments(files: AttachmentFiles, call: CallKey, items: Sequence[Attachment]) -> WrittenAttachments:
    """Write the files of a result's attachments. Raises `DocumentError`."""
    links: list[str] = []
    stored: list[StoredAttachment] = []
    places = Counter[str]()
    for item in items:
        person = item.audience == "person"
        if item.data:
            known_as = files.write(item)
            target, title = f"{files.folder}/{known_as}", grammar.NOT_SENT if person else ""
        else:
            # All that is known of content without bytes is its address.
            target, title = item.uri or "gone", f"{grammar.LINKED}, {grammar.NOT_SENT}" if person else grammar.LINKED
            known_as = grammar.decode_field(grammar.encode_target(target))  # as it is read back
        stored.append(StoredAttachment(call.digest, known_as, storable(item), places[known_as]))
        places[known_as] += 1
        shown = grammar.encode_target(target)
        links.append(
            grammar.attachment_link(file_name(item), shown, image=item.kind == "image" and bool(item.data), title=title)
        )
    return WrittenAttachments(tuple(links), tuple(stored))


class LinkedAttachments:
    """Reads what links stand for, with what the stored state knows about them."""

    def __init__(
        self,
        files: AttachmentFiles,
        stored: Callable[[], Sequence[StoredAttachment]],
        limits: OutputConfig,
    ) -> None:
        self._files = files
        self._stored = stored
        self._limits = limits

    @cached_property
    def _known(self) -> Mapping[tuple[str, str, int], Attachment]:
        """By call, target and place; also without the call, for one that was edited: the file name has the digest."""
        found = self._stored()
        return {("", item.target, item.place): item.attachment for item in found} | {
            (item.call, item.target, item.place): item.attachment for item in found
        }

    def read(self, call: CallKey, links: Sequence[AttachmentLink]) -> list[tuple[Attachment, str]]:
        """The attachments of a result, each with the reason why its content is not sent; empty if it is.

        A person or a command can add files and links: a result has no more of them than one that a tool returned.
        """
        places = Counter[str]()
        made: list[tuple[Attachment, str]] = []
        room = self._limits.max_attachment_bytes
        for number, link in enumerate(links):
            place = (link.known_as, places[link.known_as])
            places[link.known_as] += 1
            known = self._known.get((call.digest, *place)) or self._known.get(("", *place))
            made.append(self._read(link, known, room if number < self._limits.max_attachments else None))
            room -= len(made[-1][0].data)
        return made

    def _read(self, link: AttachmentLink, known: Attachment | None, room: int | None) -> tuple[Attachment, str]:
        audience: Literal["everyone", "person"] = "everyone" if link.sent else "person"
        folder, _, name = link.target.rpartition("/")
        if link.linked:
            made = known or Attachment(kind="file", mime_type="application/octet-stream", uri=link.target)
            return replace(made, audience=audience), ""
        try:
            if room is None:
                most = self._limits.max_attachments
                raise UnusableFile(f"is one of more than {most} attachments of a result (output.max_attachments)")
            data, path = self._files.read(folder, name, "" if known is None else known.digest, room)
        except UnusableFile as error:
            kind = "image" if link.image else "file"
            lost = known or Attachment(kind=kind, mime_type="application/octet-stream", name=link.label)
            return replace(lost, audience=audience), f"{folder}/{name} {error}"
        if known is not None:
            return replace(known, data=data, audience=audience, path=str(path)), ""
        mime = mime_type(data[:SNIFFED_BYTES], name) or "text/plain"
        kind = "image" if link.image else attachment_kind(mime)
        item = Attachment(kind=kind, mime_type=mime, data=data, name=link.label, audience=audience, path=str(path))
        return item, ""
