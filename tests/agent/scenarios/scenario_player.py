"""Plays a scenario: a project, the messages of a user and a model, and the expected events.

A scenario is a text file. Its first line is a title; then come sections, each with a header:

    >>> file PATH        a file of the project at the start, or written after an advance
    >>> commit MESSAGE   commit the files so far
    >>> config           settings, `key = value` each; every rule is on by default
    >>> you              a user message; the document is then advanced
    >>> approve, reject  answer the pending call (`approve PATH`: the one with this path), and advance
    >>> model            the next reply of the model; `model cut`: cut off by max_tokens
    >>> sees, sees not   lines that are, or are not, in the request for that reply
    >>> happens          the expected events, one per line
    >>> outcome          the kind of the outcome; below, parts of its message
    >>> answer           the last reply in the document
    >>> after PATH       the exact file at the end; with nothing below, it must not exist

Every advance opens the document again, like another process. An expected event or answer that ends in `…` is a prefix.
In a file and a reply `␍` at the end of a line is a carriage return, and a last line `\\ No newline at end of file`
means that there is none.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from holdfast import Tool
from holdfast.agent.events import AgentEvent, GuardrailApplied, Outcome, ResultWritten, StatusWritten
from holdfast.contract.call import Answer
from holdfast.contract.json import parse_json
from holdfast.contract.message import Message, Text
from holdfast.factory.chat import ChatSession, open_chat
from holdfast.models.port import ModelEvent, PartEnded, ReplyEnded, Retrying, Settings, TextDelta, Usage
from holdfast.models.text_protocol.text_model import TextModel

_LEGS = ("you", "approve", "reject")
_WIDTH = 60
_ASKED = "(the model is asked)"
_UNENDED = "\\ No newline at end of file"
_DATE = "2026-03-01T12:00:00Z"
_AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")


class Section(Struct, frozen=True):
    kind: str
    about: str
    body: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.body.split("\n") if line.strip()]

    @property
    def written(self) -> str:
        """The body as a reply, without the scenario's last newline."""
        return self.body.replace("␍\n", "\r\n")

    @property
    def content(self) -> bytes:
        """The body as a file."""
        text = self.written + "\n"
        return (text.removesuffix(f"{_UNENDED}\n").removesuffix("\n") if _UNENDED in self.lines else text).encode()


class TextOnlyModel:
    """A model without tool calling that sends the replies of the scenario in order."""

    provider = "scripted"
    name = "scripted:writer"

    def __init__(self, replies: Sequence[Section], happened: list[str]) -> None:
        self._replies = list(replies)
        self._happened = happened
        self.requests: list[str] = []

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncIterator[ModelEvent]:
        assert not tools, "a model that only writes is shown no tools"
        self.requests.append("\n".join(message.text for message in messages))
        self._happened.append(_ASKED)
        reply = self._replies.pop(0) if self._replies else Section("model", "", "(the scenario has no more replies)")
        yield TextDelta(reply.written)
        yield PartEnded(Text(reply.written))
        yield ReplyEnded("max_tokens" if reply.about == "cut" else "end", Usage(input=1, output=1))


def read_sections(text: str) -> list[Section]:
    sections: list[Section] = []
    for block in ("\n" + text).split("\n>>> ")[1:]:
        head, _, body = block.partition("\n")
        kind, _, about = head.partition(" ")
        sections.append(Section(kind, about.strip(), body.rstrip("\n")))
    return sections


def play(scenario: str, root: Path) -> None:
    """Play a scenario. Raises `AssertionError` if an expectation fails."""
    _git(root, "init", "-q", "-b", "main")
    flags: dict[str, object] = {"guardrails.enabled": True}
    legs: list[list[Section]] = []
    for section in read_sections(scenario):
        match section.kind:
            case "file" if not legs:
                _put(root, section)
            case "commit":
                _git(root, "add", "-A")
                _git(root, *_AUTHOR, "commit", "-q", f"--date={_DATE}", "-m", section.about)
            case "config":
                said = (line.split("=", 1) for line in section.lines)
                flags |= {key.strip(): parse_json(value) for key, value in said}
            case kind if kind in _LEGS:
                legs.append([section])
            case _:
                legs[-1].append(section)
    document = root / "talk.chat"
    document.write_text("")
    for leg in legs:
        asyncio.run(asyncio.wait_for(_advance(document, leg, flags), 60))


def _put(root: Path, file: Section) -> None:
    path = root / file.about
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


async def _advance(document: Path, leg: Sequence[Section], flags: dict[str, object]) -> None:
    happened: list[str] = []
    writer = TextOnlyModel([section for section in leg if section.kind == "model"], happened)
    repairs = flags["guardrails.enabled"] is True and flags.get("guardrails.edit_repair", True) is True

    def heard(event: AgentEvent) -> None:
        if (line := _line(event)) is not None:
            happened.append(line)

    model = TextModel(writer, edit_repair=repairs)
    async with open_chat(document, flags=flags, model=model, on_event=heard) as chat:
        await _answer(chat, leg[0])
        outcome = await chat.loop.advance()
        expected, found = _sorted(_expected(leg)), _sorted(happened)
        as_said = len(found) == len(expected) and all(map(_says, expected, found))
        assert as_said, "\n".join(["what happened:", *happened, f"({outcome.kind}: {outcome.message})"])
        _check(chat, leg, outcome, writer)


async def _answer(chat: ChatSession, first: Section) -> None:
    if first.kind == "you":
        chat.conversation.say(first.body)
        return
    (held,) = (each for each in chat.runtime.pending.list() if first.about in ("", each.call.args.get("path")))
    kind = "approve" if first.kind == "approve" else "reject"
    await chat.runtime.answer(held.call.id, Answer(kind=kind, by="ann", message=first.body.strip()))


def _expected(leg: Sequence[Section]) -> list[str]:
    lines: list[str] = []
    for section in leg:
        if section.kind == "model":
            lines.append(_ASKED)
        elif section.kind == "happens":
            lines += section.lines
    return lines


def _sorted(lines: Sequence[str]) -> list[str]:
    """Sort results of calls that run concurrently and may end in any order."""
    ordered: list[str] = []
    for settled, run in groupby(lines, lambda line: line.startswith(("done ", "not done "))):
        together = list(run)
        ordered += sorted(together) if settled else together
    return ordered


def _says(expected: str, happened: str) -> bool:
    return happened.startswith(expected[:-1]) if expected.endswith("…") else happened == expected


def _check(chat: ChatSession, leg: Sequence[Section], outcome: Outcome, writer: TextOnlyModel) -> None:
    asked = 0
    for section in leg:
        match section.kind:
            case "model":
                asked += 1
            case "sees":
                request = writer.requests[asked - 1]
                for line in section.lines:
                    assert (line in request) is (section.about != "not"), f"{section.about} in request {asked}: {line}"
            case "outcome":
                kind, *said = section.lines
                assert outcome.kind == kind and all(line in outcome.message for line in said), outcome
            case "answer":
                answer = chat.conversation.messages()[-1].text.strip()
                assert _says(section.body.strip(), answer), answer
            case "after":
                path = chat.path.parent / section.about
                found = path.read_bytes() if path.exists() else None
                assert found == (section.content if section.body else None), found
            case "file":
                _put(chat.path.parent, section)
            case _:
                assert section.kind in (*_LEGS, "happens"), section.kind


def _line(event: AgentEvent) -> str | None:
    match event:
        case GuardrailApplied(rule, what, message):
            return f"{what} {rule}: {message}" if what == "changed" else f"{what} {rule}"
        case ResultWritten(use, result):
            head = f"{use.name} {_shown(use.arguments)}".rstrip()
            return f"done {head}" if result.success else f"not done {head}: {result.text.splitlines()[0]}"
        case StatusWritten(use, status) if status == "pending":
            return f"waits {use.name} {_shown(use.arguments)}"
        case Retrying():
            return f"again: {event.reason}"
        case _:
            return None


def _shown(arguments: str) -> str:
    given = parse_json(arguments)
    assert isinstance(given, dict)
    return " ".join(f"{key}={str(value).replace(chr(10), '↵')[:_WIDTH]}" for key, value in given.items())
