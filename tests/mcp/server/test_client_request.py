"""The small parts of the server: its key, its pages, how results and questions look on the wire."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.call import Call, Caller, Decision, PendingCall
from holdfast.contract.elicitation import ElicitationReply, FormRequest, RootsRequest, UrlRequest
from holdfast.contract.enums import State, Verdict
from holdfast.contract.errors import HoldfastError
from holdfast.contract.result import Attachment, Result
from holdfast.contract.tool import Tool
from holdfast.mcp.server.client_request import RequestState, seal_state, sealing_key, unseal_state
from holdfast.mcp.server.elicitation import answer_of, approval_form, can_answer, reply_to
from holdfast.mcp.server.tool_list import to_wire as listed
from holdfast.mcp.server.wire import block_of, to_wire
from holdfast.mcp.stdio_lines import LineSplitter

pytestmark = pytest.mark.spec("K3a")


def held(**args: str) -> PendingCall:
    call = Call("s-1", "erase", "erase", dict(args), Caller(interface="mcp", agent="tester"), "/")
    decision = Decision(Verdict.ASK, "default", "Nobody has said yes.")
    return PendingCall(
        call=call, state=State.PENDING, digest="d", definition_digest="e", decision=decision, preview="erase: all"
    )


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = sealing_key(tmp_path / "state")
    assert len(key) == 32 and sealing_key(tmp_path / "state") == key
    assert (tmp_path / "state" / "mcp.key").stat().st_mode & 0o777 == 0o600
    assert [item.name for item in (tmp_path / "state").iterdir()] == ["mcp.key"]
    assert sealing_key(None) != sealing_key(None)


@pytest.mark.parametrize("harm", ["readable by others", "too short", "a link"])
def test_a_key_that_others_may_know_is_not_used(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "mcp.key"
    if harm == "a link":
        (tmp_path / "elsewhere").write_bytes(b"k" * 32)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_bytes(b"k" * (32 if harm == "readable by others" else 5))
        path.chmod(0o644 if harm == "readable by others" else 0o600)
    with pytest.raises(HoldfastError, match="Delete it to create a new one"):
        sealing_key(tmp_path)


@given(st.text(), st.dictionaries(st.text(), st.tuples(st.integers(), st.text(), st.text())))
def test_what_is_sealed_comes_back(root: str, asked: dict[str, tuple[int, str, str]]) -> None:
    state = RequestState(exchange="x", root=root, asked=asked)
    assert unseal_state(seal_state(state)) == state


@given(st.binary(), st.sampled_from(["image", "audio", "file"]), st.sampled_from(["text/plain", "a/b+json", "x/y"]))
def test_every_attachment_is_a_block_the_protocol_knows(data: bytes, kind: str, mime: str) -> None:
    item = Attachment(kind=kind, mime_type=mime, data=data)  # pyright: ignore[reportArgumentType]
    wire = to_wire(Result(True, attachments=(item,), call_id="s-1"), modern=True)
    assert types.CallToolResult.model_validate(wire).content[0].type in ("image", "audio", "resource")
    assert block_of(item, "s-1", 0) in wire["content"]


def test_structured_content_that_is_no_object_is_for_the_modern_protocol() -> None:
    result = Result(True, "[1]", structured=[1])
    assert "structuredContent" not in to_wire(result, modern=False)
    assert to_wire(result, modern=True)["structuredContent"] == [1]


def test_the_structure_of_a_bridged_result_is_left_out_where_its_text_had_to_be_cut() -> None:
    result = Result(True, "short", structured={"text": "x" * 100})
    assert to_wire(result, modern=True, limit=200)["structuredContent"] == result.structured
    assert "structuredContent" not in to_wire(result, modern=True, limit=100)
    schema = {"type": "object"}
    own, bridged = (Tool(name="mcp:p:t", output_schema=schema, source=source) for source in ("program", "mcp:p"))
    assert "outputSchema" in listed(own) and "outputSchema" not in listed(bridged)


@given(st.text(), st.text())
def test_a_form_shows_nothing_that_hides_or_reorders_text(name: str, value: str) -> None:
    message = approval_form(held(**{name: value}), "high", "2025-11-25").message
    assert all(char.isprintable() or char in "\n\t" for char in message)
    assert "Risk: high" in message and len(message) < 50_000


def test_only_a_clear_yes_is_a_yes() -> None:
    for said in ({}, {"decision": "Approve"}, {"decision": "approve "}, {"decision": None}, {"approve": True}):
        answer = answer_of(ElicitationReply(action="accept", content=said), held(), "x")  # pyright: ignore[reportArgumentType]
        assert answer is None or answer.kind == "reject"
    yes = answer_of(ElicitationReply(action="accept", content={"decision": "approve"}), held(), "x")
    assert yes is not None and yes.kind == "approve"
    for action in ("decline", "cancel"):
        no = answer_of(ElicitationReply(action=action, content={"decision": "approve"}), held(), "x")
        assert no is None or no.kind == "reject"


def test_an_answer_of_another_kind_answers_nothing() -> None:
    form = FormRequest(
        message="?", schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    )
    roots = types.ListRootsResult(roots=[])
    accepted = types.ElicitResult(action="accept", content={"n": "no number"})
    assert reply_to(form, roots) is None and reply_to(form, accepted) is None and reply_to(form, 12345) is None
    assert reply_to(RootsRequest(), accepted) is None
    filled = reply_to(form, types.ElicitResult(action="accept", content={"n": 3, "note": None}))
    assert filled is not None and filled.content == {"n": 3}


def test_a_client_is_asked_only_what_it_said_it_can_answer() -> None:
    form = FormRequest(message="?", schema={})
    visit = UrlRequest(message="?", url="https://example.org")
    forms = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    addresses = types.ClientCapabilities(elicitation=types.ElicitationCapability(url=types.UrlElicitationCapability()))
    assert can_answer(form, forms) and not can_answer(visit, forms)
    assert can_answer(visit, addresses) and not can_answer(form, addresses)
    assert not can_answer(form, None) and not can_answer(RootsRequest(), forms)


def test_the_sdk_is_not_loaded_before_a_client_is_served() -> None:
    code = "import sys, holdfast.mcp.server; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=20), st.integers(1, 30))
def test_lines_that_are_too_long_are_left_out_and_the_others_are_not(written: list[bytes], size: int) -> None:
    wire = b"".join(line + b"\n" for line in written)
    lines = LineSplitter(8, skips=True)
    for start in range(0, len(wire), size):
        lines.feed(wire[start : start + size])
    kept = [bytes(line) for line in lines.ready]
    assert len(kept) + lines.skipped == len(written)
    assert [line for line in kept if len(line) <= 8] == [line for line in written if len(line) <= 8]
    assert all(len(line) <= 8 + size for line in kept)
