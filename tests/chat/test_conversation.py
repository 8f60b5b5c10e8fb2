"""Messages and diagnostics of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from holdfast.agent.conversation import NOT_RECORDED, Diagnostic, SetResult
from holdfast.chat.conversation import DocumentConversation, DocumentReader
from holdfast.chat.document import Document
from holdfast.contract.message import Aborted, Message, Part, Role, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Attachment, Result
from holdfast.models.port import Usage
from tests.chat.chat_files import (
    ONE,
    Editor,
    conversation_with_calls,
    only_slot,
    open_conversation,
    text_of,
    write_results,
    write_statuses,
)
from tests.quick import quickly

pytestmark = pytest.mark.usefixtures("user_state_dir")

CALLS = """@Assistant:
**Tool Use:** `x` (`a`)

```json
{}
```

**Tool Use:** `y` (`b`)

```json
{"k": 1}
```
"""
RESULT = "**Tool Result:** `{}`\n\n```\n{}\n```\n\n"


class Expanded(Struct, frozen=True):
    parts: Sequence[Part]
    diagnostics: Sequence[Diagnostic] = ()


def found(conversation: DocumentConversation) -> list[tuple[str, int | None]]:
    return [(re.split("[;,]", one.message)[0], one.line) for one in conversation.diagnostics()]


@pytest.mark.spec("D1")
@pytest.mark.parametrize("header", ["**Tool Use:** `x` (`a`)\n", "**Tool Use:** `x` (`a`)\n\nand text\n"])
def test_a_header_without_a_fence_is_not_a_call(tmp_path: Path, header: str) -> None:
    conversation = open_conversation(
        tmp_path, f"@You:\nGo.\n\n@Assistant:\n{header}\n@You:\n{RESULT.format('a', 'one')}"
    )
    assert conversation.slots() == []
    parts = [part for message in conversation.messages() for part in message.parts]
    assert all(isinstance(part, Text) for part in parts)
    assert parts[1] == Text("**Tool Use:** `x` (`a`)")
    told = conversation.diagnostics()[0]
    assert (told.severity, told.line) == ("warning", 5) and "without one it is not a call" in told.message


@pytest.mark.spec("D1")
@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("you", "Unknown role @you. Use @You:."),
        ("ASSISTANT", "Unknown role @ASSISTANT. Use @Assistant:."),
        ("Human", "Unknown role @Human. Use @You: or @Assistant: or @System:."),
    ],
)
def test_an_unknown_role_is_an_error_that_lists_the_known_ones(tmp_path: Path, role: str, told: str) -> None:
    conversation = open_conversation(tmp_path, f"@You:\nHello.\n\n@{role}:\nAnd this.\n")
    assert conversation.diagnostics() == [Diagnostic("error", told, 4, 1)]


def test_the_last_system_message_wins_and_unknown_roles_are_omitted(tmp_path: Path) -> None:
    text = "stray\n@System:\nOne.\n\n@You:\nHello.\n\n@Moderator:\nOrder!\n\n@System:\nTwo.\n\n@You:\nThere.\n"
    conversation = open_conversation(tmp_path, text)
    assert conversation.messages() == [
        Message("system", (Text("Two."),)),
        Message("user", (Text("Hello."), Text("There."))),
    ]
    assert [(one.severity, one.line) for one in conversation.diagnostics()] == [("warning", 1), ("error", 8)]


@pytest.mark.spec("D5")
def test_results_come_first_in_the_order_of_the_calls_with_the_names_of_their_tools(tmp_path: Path) -> None:
    text = f"@You:\nGo.\n\n{CALLS}\n@You:\nWords.\n\n{RESULT.format('b', 'two')}{RESULT.format('a', 'one')}More.\n"
    assert open_conversation(tmp_path, text).messages()[-1] == Message(
        "user", (ToolResult("a", "x", "one"), ToolResult("b", "y", "two"), Text("Words."), Text("More."))
    )


@pytest.mark.spec("D5")
def test_a_call_without_a_result_is_reported_and_a_placeholder_is_never_sent(tmp_path: Path) -> None:
    text = f"@You:\nGo.\n\n{CALLS}\n@You:\n\n**Tool Result:** `a`\n\n```flemma:tool status=approved\nmine\n```\n"
    conversation = open_conversation(tmp_path, text)
    assert conversation.messages()[-1].parts == (
        ToolResult("a", "x", NOT_RECORDED, error=True),
        ToolResult("b", "y", NOT_RECORDED, error=True),
    )
    assert not conversation.awaits_reply()


def test_thinking_calls_and_an_abort_marker_become_parts(tmp_path: Path) -> None:
    text = (
        "@Assistant:\nHi.\n\n**Tool Use:** `x` (`a`)\n\n```json\n{oops\n```\n\n"
        '<thinking anthropic:signature="c2ln">\nplan\n</thinking>\n<thinking redacted>\nb3Bh\n</thinking>\n'
        "<!-- flemma:aborted: Stopped. -->\n"
    )
    conversation = open_conversation(tmp_path, text)
    assert conversation.messages()[0].parts == (
        Text("Hi."),
        ToolUse("a", "x", "{oops"),
        Thinking("plan", "anthropic", "c2ln"),
        Thinking("b3Bh", redacted=True),
        Aborted("Stopped."),
    )
    assert found(conversation) == [("The arguments of 'a' are not JSON.", 4)]
    assert only_slot(conversation).aborted == "Stopped."


def test_an_abort_marker_counts_only_at_the_end_of_a_reply(tmp_path: Path) -> None:
    text = f"{CALLS}\n<!-- flemma:aborted: Stopped. -->\n\nAnd on.\n"
    assert {slot.aborted for slot in open_conversation(tmp_path, text).slots()} == {None}


@pytest.mark.spec("D5")
def test_duplicate_ids_and_stray_results_are_reported_and_not_sent(tmp_path: Path) -> None:
    text = (
        f"@You:\n{RESULT.format('early', 'x')}\n{CALLS}\n**Tool Use:** `z` (`a`)\n\n```json\n{{}}\n```\n\n"
        f"@You:\n{RESULT.format('a', 'one')}{RESULT.format('a', 'again')}{RESULT.format('b', 'two')}"
        f"{RESULT.format('c', 'three')}"
    )
    conversation = open_conversation(tmp_path, text)
    assert found(conversation) == [
        ("No call of the previous reply has the id 'early'", 2),
        ("Another call of this reply has the id 'a'", 22),
        ("Call 'a' already has a result", 35),
        ("No call of the previous reply has the id 'c'", 47),
    ]
    calls = [part for message in conversation.messages() for part in message.parts if isinstance(part, ToolUse)]
    results = [part for message in conversation.messages() for part in message.parts if isinstance(part, ToolResult)]
    assert [(use.id, use.name) for use in calls] == [("a", "x"), ("b", "y")]
    assert [(result.id, result.output) for result in results] == [("a", "one"), ("b", "two")]


@pytest.mark.spec("D5")
def test_the_same_id_in_two_turns_has_two_results(tmp_path: Path) -> None:
    turn = f"{CALLS}\n@You:\n{RESULT.format('a', '{0}')}{RESULT.format('b', '{0}')}"
    conversation = open_conversation(tmp_path, turn.replace("{0}", "first") + turn.replace("{0}", "second"))
    outputs = [part.output for said in conversation.messages() for part in said.parts if isinstance(part, ToolResult)]
    assert outputs == ["first", "first", "second", "second"]
    assert found(conversation) == []


def test_user_text_is_expanded_and_model_and_tool_output_is_not(tmp_path: Path) -> None:
    seen: list[tuple[str, Role]] = []

    def expand(text: str, role: Role) -> Expanded:
        seen.append((text, role))
        problems = [Diagnostic("error", "No such file", 2, 3)] if "@./" in text else []
        return Expanded([Text(text.upper())], problems)

    path = tmp_path / "a.chat"
    path.write_text(
        f"@System:\nold\n\n@System:\nbe\n\n@You:\n\nsee\n@./x\n\n@Assistant:\n@./no\n{CALLS.partition(chr(10))[2]}"
        f"\n@You:\n{RESULT.format('a', '@./no')}"
    )
    conversation = DocumentConversation(path, state=tmp_path / "state", expand=expand)
    assert [(one.message, one.line, one.column) for one in conversation.diagnostics()] == [("No such file", 10, 3)]
    system, user = conversation.messages()[:2]
    assert (system.text, user.text) == ("BE", "SEE\n@./X")
    assert seen == [("be", "system"), ("see\n@./x", "user")]
    conversation.refresh()
    conversation.messages()
    assert len(seen) == 4


def test_a_reply_never_yields_two_calls_with_one_id(tmp_path: Path) -> None:
    conversation = conversation_with_calls(
        tmp_path, ToolUse("c", "x"), ToolUse("c", "y"), ToolUse("", "z"), ToolUse("c-2", "w")
    )
    ids = [slot.use.id for slot in conversation.slots()]
    assert len(set(ids)) == 4
    assert (ids[0], ids[3], "" in ids) == ("c", "c-2", False)
    assert conversation.diagnostics() == []


@pytest.mark.parametrize(
    ("text", "awaits"),
    [
        ("", False),
        ("@You:", False),
        ("@You:\n \t\n\n", False),
        ("@System:\nHi.\n", False),
        ("@You:\nHi.", True),
        ("@You:\nHi.\n\n@You:\n\n", True),
        ("@You:\nHi.\n\n@Assistant:\n\n@You:\n\n", False),
        (f"@Assistant:\nHo.\n\n@You:\n{RESULT.format('stray', '1')}", False),
        ("@You:\nHi.\n\n@Assistant:\nHo.\n\n@You:\n\n", False),
        ("@You:\nHi.\n\n@Assistant:\nHo.\n\n@You:\nHm.\n", True),
        (f"{CALLS}\n@You:\n{RESULT.format('a', '1')}{RESULT.format('b', '2')}", True),
        (f"{CALLS}\n@You:\n{RESULT.format('a', '1')}", False),
        (f"{CALLS}\n@You:\n{RESULT.format('a', '1')}Words.\n", False),
    ],
)
def test_the_model_is_asked_only_after_user_text(tmp_path: Path, text: str, awaits: bool) -> None:
    assert open_conversation(tmp_path, text).awaits_reply() is awaits


def test_attachments_of_a_result_are_sent_again_after_a_restart(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    image = Attachment(kind="image", mime_type="image/png", data=b"\x89PNG")
    conversation.change([SetResult(only_slot(conversation), Result(True, attachments=(image,)))])
    assert f"\n\n![image.png](<a.chat.files/{image.digest[:16]}-image.png>)\n" in text_of(conversation)
    [result] = open_conversation(tmp_path).messages()[-1].parts
    assert isinstance(result, ToolResult)
    [kept] = result.attachments
    assert (kept.data, kept.mime_type) == (image.data, "image/png")
    assert kept.path == str(tmp_path / "a.chat.files" / f"{image.digest[:16]}-image.png")


def test_usage_covers_all_replies_and_is_zero_for_a_new_document(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, "@You:\nHi.\n")
    for _ in range(2):
        conversation.messages()
        conversation.add_reply([Text("Ho.")], usage=Usage(input=3, output=1))
        Editor(conversation.path).say("More.")
        conversation.refresh()
    assert (open_conversation(tmp_path).usage, open_conversation(tmp_path).replies) == (Usage(input=6, output=2), 2)
    fresh = open_conversation(tmp_path, "@You:\nHi.\n")
    fresh.add_reply([Text("Ho.")], usage=Usage(input=1))
    assert (fresh.usage, fresh.replies) == (Usage(input=1), 1)


@pytest.mark.spec("D2")
def test_earlier_messages_stay_the_same_when_the_document_grows(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, text="@System:\nBe.\n\n@You:\n\n  indented\n\n\n")
    before = conversation.messages()[:-1]
    write_statuses(conversation)
    write_results(conversation, "\n\n out \n\n")
    for _ in range(3):
        assert conversation.messages()[: len(before)] == before
        before = conversation.messages()
        conversation.add_reply([Text("\n\n answer\n\n")])
        Editor(conversation.path).say("Again.")
        conversation.refresh()


@pytest.mark.spec("D9")
def test_ten_thousand_alternating_results_and_texts_are_read_in_bounded_time(tmp_path: Path) -> None:
    def expand(text: str, role: Role) -> Expanded:
        return Expanded((Text(text),), (Diagnostic("warning", "Seen.", 1, 1),))

    blocks = "".join(f"{RESULT.format(f'a{number}', 'x')}Words.\n\n" for number in range(10_000))
    reading = DocumentReader(Document.parse(f"@You:\n{blocks}"), expand)
    with quickly():
        [message] = reading.messages()
        seen = [one.line for one in reading.diagnostics() if one.message == "Seen."]
    assert len(message.parts) == 10_000
    assert seen == [8 * number for number in range(1, 10_001)]
