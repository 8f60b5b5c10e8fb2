"""`ask.user`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import State
from holdfast.tools import builtin_tools
from tests.runtime.support import run, runtime_in


@pytest.mark.spec("B13a", "S6")
def test_ask_user_waits_for_the_answer(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path, *builtin_tools(), nobody="pending")
    question = {"questions": [{"question": "Which colour?", "options": ["red", "blue"]}]}
    held = run(runtime.call("ask.user", question))
    assert held.state is State.PENDING
    assert runtime.pending.list()[0].preview == "ask.user: Which colour?"
    assert run(runtime.respond(held.call_id, "blue")).output == "blue"
    assert run(runtime.call("ask.user", {"questions": []})).state is State.INVALID
    assert run(runtime.call("ask.user", {"questions": [{"question": "Without options?"}]})).state is State.PENDING
