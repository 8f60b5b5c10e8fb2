"""Long documents and conversations stay fast and small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agent.conversation import SetResult, SetStatus, Status
from holdfast.chat.document import Document
from holdfast.chat.edits import apply_changes, repair_orphans, text_difference
from holdfast.contract.message import Text, ToolUse
from holdfast.contract.result import ok
from tests.chat.chat_files import ONE, Editor, open_conversation, write_results, write_statuses
from tests.quick import least
from tests.soak import rounds

pytestmark = pytest.mark.usefixtures("user_state_dir")

TURN = (
    "@You:\nPlease.\n\n@Assistant:\nA call.\n\n**Tool Use:** `x` (`a`)\n\n```json\n{}\n```\n\n"
    "@You:\n\n**Tool Result:** `a`\n\n```\n" + "line of output\n" * 600 + "```\n\n"
)
ROOT = Path(__file__).parents[2]


@pytest.mark.spec("D9")
def test_a_turn_at_the_end_of_ten_megabytes_costs_little_more_than_reading_them(tmp_path: Path) -> None:
    text = TURN * (10_000_000 // len(TURN)) + "@You:\nOn.\n"
    plain = least(lambda: open_conversation(tmp_path, text).messages(), 3)
    conversation = open_conversation(tmp_path)

    def turn() -> None:
        conversation.messages()
        conversation.add_reply([Text("A call."), ONE])
        write_statuses(conversation)
        write_results(conversation)

    assert least(turn, 3) < plain * 5


def test_the_difference_of_long_texts_is_found_quickly() -> None:
    text = "x" * 10_000_000
    assert text_difference(text, text[:7_000_000] + "yy" + text[7_000_000:]) == (7_000_000, 7_000_000, "yy")
    assert text_difference(text, text[1:]) == (len(text) - 1, len(text), "")
    assert text_difference("", "ab") == (0, 0, "ab")
    assert text_difference("aba", "a") == (1, 3, "")
    taken = least(lambda: text_difference(text, text[:7_000_000] + "y" + text[7_000_001:]), 3)
    assert taken < least(lambda: sum(map(ord, text[:1_000_000])), 3) * 10


def _asking(count: int) -> Document:
    uses = "".join(f"**Tool Use:** `x` (`a{number}`)\n\n```json\n{{}}\n```\n\n" for number in range(count))
    return Document.parse(f"@You:\nGo.\n\n@Assistant:\n{uses}")


@pytest.mark.parametrize("again", [False, True])
def test_ten_times_the_calls_take_about_ten_times_as_long(tmp_path: Path, again: bool) -> None:
    def work(count: int) -> float:
        path = tmp_path / f"{count}.chat"
        path.write_text(_asking(count).text)
        slots = open_conversation(tmp_path, name=path.name).slots()
        document = apply_changes(_asking(count), [SetStatus(slot, Status.PENDING) for slot in slots] if again else [])
        path.write_text(document.text)
        changes = [SetResult(slot, ok("x")) for slot in open_conversation(tmp_path, name=path.name).slots()]
        return least(lambda: apply_changes(document, changes), 3)

    assert work(3000) < work(300) * 50


def test_many_orphans_are_repaired_at_once() -> None:
    def work(count: int) -> float:
        turn = "@Assistant:\n**Tool Use:** `x` (`a`)\n\n```json\n{}\n```\n\n"
        document = Document.parse(turn * count)
        new, orphans = repair_orphans(document)
        assert (orphans, repair_orphans(new)[1]) == (count - 1, 0)
        return least(lambda: repair_orphans(document), 3)

    assert work(3000) < work(300) * 50


MANY_TURNS = """
import os, pathlib, sys
from tests.chat.chat_files import ONE, conversation_with_calls, write_results, write_statuses
from holdfast.agent.conversation import LedgerCall

def size():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

os.fsync = lambda descriptor: None
conversation = conversation_with_calls(pathlib.Path(sys.argv[1]), ONE)
for number in range(int(sys.argv[2])):
    if number == 100:
        before = size()
    write_statuses(conversation)
    [slot] = conversation.slots()
    conversation.remember(slot, LedgerCall(call_id=f"x-{number}", digest="d"))
    write_results(conversation, "some output\\n" * 5)
    conversation.forget([f"x-{number}"])
    if number % 20 == 0:
        conversation.messages()
    conversation.add_reply([ONE])
sys.stdout.write(str(size() - before))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_many_turns_take_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY_TURNS, str(tmp_path), str(rounds(300, 1000))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 20_000_000


def test_an_edit_in_the_middle_of_a_long_document_is_merged(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, TURN * 50 + "@You:\nLast.\n\n" + TURN * 50)
    Editor(conversation.path).replace("Last.", "Not last.")
    assert conversation.refresh()
    assert conversation.document.text == open_conversation(tmp_path).document.text
    assert conversation.messages() == open_conversation(tmp_path).messages()


def test_very_many_calls_and_their_placeholders_are_read(tmp_path: Path) -> None:
    many = rounds(20_000, 100_000)
    blocks = "".join(f"**Tool Result:** `a{number}`\n\n```flemma:tool\n```\n\n" for number in range(many))
    conversation = open_conversation(tmp_path, f"{_asking(many).text}@You:\n{blocks}@You:\n{blocks}")
    slots = conversation.slots()
    assert len(slots) == many
    assert (slots[-1].use, slots[-1].status) == (ToolUse(f"a{many - 1}", "x", "{}"), Status.PENDING)
    assert slots[-1].line == 4 + many * 6 + 1 + (many - 1) * 5 + 1
    assert len(conversation.diagnostics()) == many
