"""Links to attachments in a document: what is written, what counts, and what a person can do with them."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.agent.conversation import SetResult
from holdfast.chat import grammar
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.document import Document
from holdfast.chat.document_file import DocumentError
from holdfast.chat.parser import AttachmentLink
from holdfast.chat.turns import read_turns
from holdfast.config.config import OutputConfig
from holdfast.contract.message import Text, ToolResult
from holdfast.contract.result import Attachment, Result, fail, ok
from tests.attachment_strategies import PNG, attachments
from tests.chat.chat_files import ONE, THREE, TWO, conversation_with_calls, only_slot, open_conversation, text_of
from tests.chat.chat_strategies import ANY_TEXT
from tests.soak import rounds

SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png")
REPORT = Attachment(
    kind="file", mime_type="application/pdf", data=b"%PDF-1.7 \x00", name="report.pdf", audience="person"
)
LINK = f"![shot.png](<a.chat.files/{SHOT.digest[:16]}-shot.png>)"


def with_result(folder: Path, *items: Attachment, output: str = "done") -> DocumentConversation:
    conversation = conversation_with_calls(folder, ONE)
    conversation.change([SetResult(only_slot(conversation), ok(output, attachments=items))])
    return conversation


def results(conversation: DocumentConversation) -> list[ToolResult]:
    return [part for message in conversation.messages() for part in message.parts if isinstance(part, ToolResult)]


def attached(conversation: DocumentConversation) -> tuple[Attachment, ...]:
    items = (item for result in results(conversation) for item in result.attachments)
    return tuple(replace(item, path=None) for item in items)


def warnings(conversation: DocumentConversation) -> list[str]:
    return [found.message for found in conversation.diagnostics()]


def edited(conversation: DocumentConversation, old: str, new: str) -> DocumentConversation:
    path = conversation.path
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return open_conversation(path.parent)


@pytest.mark.spec("T10g")
def test_a_result_names_its_attachments_by_links_to_files_beside_the_document(tmp_path: Path) -> None:
    conversation = with_result(tmp_path, SHOT, REPORT)
    files = f"a.chat.files/{REPORT.digest[:16]}-report.pdf"
    assert text_of(conversation).endswith(
        f'**Tool Result:** `a1`\n\n```\ndone\n```\n\n{LINK}\n[report.pdf](<{files}> "not sent to the model")\n'
    )
    assert (tmp_path / files).read_bytes() == REPORT.data
    assert attached(conversation) == attached(open_conversation(tmp_path)) == (SHOT, REPORT)
    assert conversation.awaits_reply() and warnings(conversation) == []


@pytest.mark.spec("T10g")
def test_links_are_not_text_of_the_user_and_earlier_turns_stay_as_they_are(tmp_path: Path) -> None:
    conversation = with_result(tmp_path, SHOT)
    before = text_of(conversation)
    assert conversation.turns_since_user() == 1
    conversation.say("What is on it?")
    assert conversation.turns_since_user() == 0
    conversation.messages()
    conversation.add_reply([Text("A cat."), TWO])
    conversation.change([SetResult(only_slot(conversation), ok("more", attachments=(SHOT, REPORT)))])
    assert text_of(conversation).startswith(before)
    assert [part.text for part in conversation.messages()[2].parts if isinstance(part, Text)] == ["What is on it?"]
    assert [len(result.attachments) for result in results(open_conversation(tmp_path))] == [1, 2]
    assert len(list((tmp_path / "a.chat.files").iterdir())) == 2


@pytest.mark.spec("T10g")
def test_a_result_that_is_written_later_does_not_come_between_another_and_its_links(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, TWO, THREE)
    one, two, three = conversation.slots()
    conversation.change([SetResult(one, ok("1", attachments=(SHOT,)))])
    conversation.change([SetResult(three, fail("3"))])
    conversation.change([SetResult(two, Result(True, attachments=(REPORT, SHOT)))])
    kept = [[item.name for item in result.attachments] for result in results(open_conversation(tmp_path))]
    assert kept == [["shot.png"], ["report.pdf", "shot.png"], []]


@pytest.mark.spec("T10h")
def test_a_person_who_removes_the_link_takes_the_attachment_out(tmp_path: Path) -> None:
    conversation = edited(with_result(tmp_path, SHOT, REPORT), LINK + "\n", "")
    assert attached(conversation) == (REPORT,) and warnings(conversation) == []
    sent = edited(conversation, ' "not sent to the model"', "")
    assert [item.audience for item in attached(sent)] == ["everyone"]


@pytest.mark.spec("T10h")
def test_a_changed_file_is_not_sent_and_the_person_is_told(tmp_path: Path) -> None:
    conversation = with_result(tmp_path, SHOT)
    [file] = (tmp_path / "a.chat.files").iterdir()
    file.write_bytes(b"something else")
    again = open_conversation(tmp_path)
    assert attached(again) == (SHOT.without_data(),)
    [warning] = warnings(again)
    assert warning.startswith(f"a.chat.files/{file.name} was changed since the tool returned it, so the model gets")
    # The same content again does not overwrite what the person wrote.
    conversation.messages()
    conversation.add_reply([TWO])
    conversation.change([SetResult(only_slot(conversation), ok("", attachments=(SHOT,)))])
    assert file.read_bytes() == b"something else"
    assert attached(conversation) == (SHOT.without_data(), SHOT)


@pytest.mark.spec("T10h")
def test_a_missing_file_is_restored_if_the_ledger_has_it(tmp_path: Path) -> None:
    with_result(tmp_path, SHOT)
    shutil.rmtree(tmp_path / "a.chat.files")
    lost = open_conversation(tmp_path)
    assert attached(lost) == (SHOT.without_data(),)
    assert "is missing" in warnings(lost)[0]
    lost.set_attachments(lambda digest: PNG if digest == SHOT.digest else None, OutputConfig())
    assert attached(lost) == (SHOT,) and warnings(lost) == []
    assert attached(open_conversation(tmp_path)) == (SHOT,)


@pytest.mark.spec("T10h")
def test_a_moved_or_copied_document_finds_its_files(tmp_path: Path) -> None:
    plain = Attachment(kind="file", mime_type="text/plain", data=b"words", name="b.txt")
    with_result(tmp_path, SHOT, REPORT, plain)
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(tmp_path / "a.chat", moved / "b.chat")
    assert [item.data for item in attached(open_conversation(moved, name="b.chat"))] == [b"", b"", b""]
    shutil.copytree(tmp_path / "a.chat.files", moved / "b.chat.files")
    assert attached(open_conversation(moved, name="b.chat")) == (SHOT, REPORT, plain)


@pytest.mark.spec("T10g")
def test_a_linked_folder_or_file_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "a.chat.files").symlink_to(elsewhere)
    with pytest.raises(DocumentError, match="Attachments go there: move it away"):
        with_result(tmp_path, SHOT)
    assert list(elsewhere.iterdir()) == []
    (tmp_path / "a.chat.files").unlink()
    with_result(tmp_path, SHOT)
    [file] = (tmp_path / "a.chat.files").iterdir()
    file.rename(elsewhere / "x")
    file.symlink_to(elsewhere / "x")
    again = open_conversation(tmp_path)
    assert attached(again) == (SHOT.without_data(),)
    assert "is a link, not a regular file" in warnings(again)[0]
    (tmp_path / "a.chat.files").rename(tmp_path / "real")
    (tmp_path / "a.chat.files").symlink_to(tmp_path / "real")
    assert "its folder is a link" in warnings(open_conversation(tmp_path))[0]


@pytest.mark.spec("T10g")
@pytest.mark.parametrize("target", ["../x.files/{0}-a", "/etc/x.files/{0}-a", "a.chat.files/../{0}-a", "x.files/{0}-a"])
def test_a_link_reaches_only_files_of_its_digest_in_a_folder_beside_the_document(tmp_path: Path, target: str) -> None:
    conversation = edited(with_result(tmp_path, SHOT), LINK, f"[a](<{target.format(SHOT.digest[:16])}>)")
    assert [item.data for item in attached(conversation)] in ([], [b""])


def test_a_link_elsewhere_is_text_of_the_user(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, f"@You:\nLook:\n{LINK}\nat this\n")
    assert [part.text for part in conversation.messages()[0].parts if isinstance(part, Text)] == [
        "Look:",
        LINK,
        "at this",
    ]


@pytest.mark.spec("T10g")
@given(ANY_TEXT, ANY_TEXT, st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=rounds(60, 3000))
def test_no_output_of_a_tool_and_no_text_of_a_model_or_a_user_makes_a_link(
    said: str, output: str, newline: str
) -> None:
    tricky = f"{LINK}\n{output}\n```\n\n{LINK}\n"
    text = newline.join(
        (
            grammar.reply([Text(f"{said}\n{LINK}"), ONE], None, newline),
            f"@You:{newline}",
            grammar.tool_result("a1", tricky, error=False, newline=newline, links=[LINK]),
            "",
            grammar.text(f"{LINK}\n{said}", "You").replace("\r\n", "\n").replace("\n", newline),
        )
    )
    document = Document.parse(text)
    assert document.text == text
    links = [part for message in document.messages for part in message.segments if isinstance(part, AttachmentLink)]
    [turn] = list(read_turns(document))[:1]
    assert turn.calls[0].block is not None
    assert [link for _, link in turn.calls[0].block.links] == links and len(links) == 1


@pytest.mark.spec("T10g")
@given(st.lists(attachments(), max_size=4), st.sampled_from(["", "done", "```\n@You:\n"]))
@settings(max_examples=rounds(25, 1000), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_attachment_comes_back_from_the_document(
    tmp_path_factory: pytest.TempPathFactory, items: list[Attachment], output: str
) -> None:
    folder = tmp_path_factory.mktemp("document")
    with_result(folder, *items, output=output)
    again = open_conversation(folder)
    assert attached(again) == tuple(items) and warnings(again) == []
    assert results(again)[0].output == output
    files = folder / "a.chat.files"
    assert not files.exists() or all(path.parent == files for path in files.rglob("*"))


@pytest.mark.spec("T10o")
def test_content_that_may_hold_secrets_is_not_written_beside_the_document(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    far = Attachment(kind="file", mime_type="text/html", uri="https://example.com/a")
    result = replace(ok("done", attachments=(SHOT, far)), metadata={"withheld": True})
    conversation.change([SetResult(only_slot(conversation), result)])
    assert not (tmp_path / "a.chat.files").exists()
    line = f'[image "shot.png" (image/png, 2 × 3 pixels, {len(PNG)}B) was not kept: it may hold secrets.]'
    assert results(conversation)[0].output == f"done\n\n{line}" and attached(conversation) == (far,)
    assert PNG not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.spec("T10g")
def test_a_preview_of_the_document_fetches_nothing_that_a_server_linked(tmp_path: Path) -> None:
    image = Attachment(kind="image", mime_type="image/png", uri="https://evil.example/pixel.png", name="p.png")
    script = Attachment(kind="file", mime_type="text/html", uri="javascript:alert`1`", name="s.html")
    mine = Attachment(kind="image", mime_type="image/png", uri="file:///etc/passwd", name="m.png", audience="person")
    conversation = with_result(tmp_path, image, script, mine)
    assert text_of(conversation).endswith(
        '\n\n[p.png](<https://evil.example/pixel.png> "linked by the tool")\n'
        '[s.html] (`javascript:alert%601%60` "linked by the tool")\n'
        '[m.png] (`file:///etc/passwd` "linked by the tool, not sent to the model")\n'
    )
    assert attached(open_conversation(tmp_path)) == (image, script, mine) and warnings(conversation) == []


@pytest.mark.spec("T10f", "T10g")
def test_a_document_gives_a_result_no_more_attachments_than_a_tool_could(tmp_path: Path) -> None:
    items = [Attachment(kind="file", mime_type="text/plain", data=b"%d" % size * size) for size in (3, 4, 5)]
    conversation = with_result(tmp_path, *items)
    load = dict[str, bytes]().get
    conversation.set_attachments(load, OutputConfig(max_attachment_bytes=8))
    assert [len(item.data) for item in attached(conversation)] == [3, 4, 0]
    [told] = warnings(conversation)
    assert "has more than the 1 bytes that a result has room for" in told
    conversation.set_attachments(load, OutputConfig(max_attachments=1))
    assert [len(item.data) for item in attached(conversation)] == [3, 0, 0]
    assert all("is one of more than 1 attachments of a result" in told for told in warnings(conversation))
    assert len(warnings(conversation)) == 2


@pytest.mark.spec("T10g")
def test_a_slash_in_the_name_of_a_link_does_not_shorten_the_digest_that_is_checked(tmp_path: Path) -> None:
    conversation = with_result(tmp_path, SHOT)
    data = next(text for number in range(1000) if sha256(text := b"%d" % number).hexdigest().startswith("b"))
    (tmp_path / "a.chat.files" / "b").write_bytes(data)
    forged = f"a.chat.files/{SHOT.digest[:16]}-x%2Fb"
    changed = edited(conversation, f"a.chat.files/{SHOT.digest[:16]}-shot.png", forged)
    assert [item.data for item in attached(changed)] == [b""]
    assert "is not the file that the result had" in warnings(changed)[0]


@pytest.mark.spec("T10g")
def test_all_links_of_a_result_are_found_however_many_there_are(tmp_path: Path) -> None:
    conversation = with_result(tmp_path, SHOT)
    many = edited(conversation, LINK, "\n".join([LINK] * 20_000))
    [block] = [call.block for turn in read_turns(many.document) for call in turn.calls]
    assert block is not None and len(block.links) == 20_000


@pytest.mark.parametrize("path", ["a", "b"])
@pytest.mark.spec("T10h")
def test_a_call_that_runs_again_loses_the_links_of_its_old_result_only(tmp_path: Path, path: str) -> None:
    conversation = with_result(tmp_path, SHOT, REPORT)
    own = Attachment(kind="file", mime_type="text/plain", data=b"mine", name="own.txt")
    mine = f"[own.txt](<a.chat.files/{own.digest[:16]}-own.txt>)"
    (tmp_path / "a.chat.files" / f"{own.digest[:16]}-own.txt").write_bytes(b"mine")
    edited(conversation, LINK, f"{LINK}\n{mine}")
    edited(conversation, '"path": "a"', f'"path": "{path}"')
    again = edited(conversation, "```\ndone\n```", "```flemma:tool status=approved\n```")
    new = Attachment(kind="file", mime_type="text/plain", data=b"new", name="new.txt")
    again.change([SetResult(only_slot(again), ok("better", attachments=(new,)))])
    link = f"[new.txt](<a.chat.files/{new.digest[:16]}-new.txt>)"
    assert text_of(again).endswith(f"**Tool Result:** `a1`\n\n```\nbetter\n```\n\n{link}\n{mine}\n")
    assert attached(again) == (new, own)


@pytest.mark.spec("T10h")
def test_a_call_that_runs_again_keeps_a_link_that_a_person_copied_from_another_result(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, TWO)
    first, second = conversation.slots()
    conversation.change([SetResult(first, ok("one")), SetResult(second, ok("two", attachments=(SHOT,)))])
    again = edited(conversation, "```\none\n```", f"```flemma:tool status=approved\n```\n\n{LINK}")
    again.change([SetResult(only_slot(again), ok("better"))])
    assert attached(again) == (SHOT, SHOT)
