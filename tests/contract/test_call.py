"""Calls, callers and pending calls as values: equality and encoding."""

from __future__ import annotations

import msgspec

from holdfast import Call, Caller, Decision, PendingCall, Proposal, Risk, State, Verdict
from holdfast.contract.call import NamedFile, RunConditions
from holdfast.contract.widening import Widening

CALL = Call("c1", "shell.exec", "bash", {"command": "ls"}, Caller(interface="cli", scopes=frozenset({"s3"})), "/work")


def test_equal_callers_have_the_same_hash() -> None:
    assert hash(Caller(agent="a", only=frozenset({"x"}))) == hash(Caller(agent="a", only=frozenset({"x"})))
    assert Caller(agent="a") != Caller(agent="b")


def test_a_default_caller_is_encoded_as_an_empty_object() -> None:
    assert msgspec.json.encode(Caller()) == b"{}"


def test_a_pending_call_survives_encoding() -> None:
    proposal = Proposal(
        tool_name="shell.exec", summary="ls", risk=Risk.LOW, payload={"argv": ["ls"]},
        surroundings=RunConditions(where="./", sandbox="bubblewrap"),
    )  # fmt: skip
    pending = PendingCall(
        call=CALL, state=State.PENDING, digest="d", definition_digest="e",
        decision=Decision(Verdict.ASK, "policy", "no rule"), preview="bash: ls", proposal=proposal,
        files=(NamedFile("a.py", "f"),), widened=Widening(hosts=("example.org",)),
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(pending), type=PendingCall) == pending
