"""Events of the loop as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import json

from holdfast.agent.events import AgentEvent
from holdfast.models.port import (
    CallBegun,
    Retrying,
    ThinkingDelta,
)
from tests.agent.scripted_model import LoopHarness, scripted_reply, use


@pytest.mark.spec("U1")
def test_every_event_round_trips_through_json(tmp_path: Path) -> None:
    reply = [ThinkingDelta("hm"), CallBegun("a1", "note"), Retrying(1, 0.1, "x"), *scripted_reply("Hi.", use("a1"))]
    harness = LoopHarness(tmp_path, reply, scripted_reply(use("a2", "ask")))
    assert harness.advance().kind == "pending"
    lines = [json.encode(event) for event in harness.events]
    assert [json.decode(line, type=AgentEvent) for line in lines] == harness.events
    assert {json.decode(line)["event"] for line in lines} == {
        "phase", "text", "thinking", "call_begun", "retrying", "placed", "settled", "reply", "usage", "outcome",
    }  # fmt: skip
