"""Trimming: limits by context window, calls kept with their results, and a stable start."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.loop import KEPT_MESSAGES, trim
from holdfast.agent.reply import calls_without_result
from holdfast.contract.message import Message, Part, Text, Thinking, ToolResult, ToolUse
from tests.agent.scripted_model import LoopHarness, fixed_tool, scripted_reply, use


def exchange(number: int, lines: int = 1) -> list[Message]:
    output = "\n".join(f"line {line}" for line in range(lines))
    return [
        Message("assistant", (Thinking("t", "p", "s"), ToolUse(f"a{number}", "note"))),
        Message("user", (ToolResult(f"a{number}", "note", output),)),
    ]


def conversation(exchanges: int, lines: int = 1) -> list[Message]:
    made = [Message("system", (Text("Be brief."),)), Message("user", (Text("Go."),))]
    return made + [message for number in range(exchanges) for message in exchange(number, lines)]


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("window", "messages", "lines"),
    [(200_000, 40, 200), (16_000, 40, 200), (15_999, 30, 150), (8_000, 30, 150), (4_000, 20, 80), (3_999, 12, 40)],
)
def test_the_limits_follow_the_window(window: int, messages: int, lines: int) -> None:
    fits = conversation((messages - 2) // 2, lines)
    assert len(fits) == messages
    assert trim(fits, window) == fits
    over = trim(conversation(messages // 2), window)
    calls = [use.id for message in over for use in message.tool_uses]
    assert KEPT_MESSAGES // 2 <= len(calls) < messages // 2
    assert len(over) <= messages
    assert calls[-1] == f"a{messages // 2 - 1}"
    assert over[:2] == conversation(0)
    long = trim(conversation(1, lines + 7), window)[-1].parts[0]
    assert isinstance(long, ToolResult)
    kept = long.output.split("\n")
    assert (len(kept), kept[-2], kept[-1]) == (
        lines + 1,
        f"line {lines - 1}",
        "[7 more lines omitted]",
    )


PARTS = st.lists(st.sampled_from(["text", "thinking", "call"]), max_size=3)
TURNS = st.lists(st.tuples(PARTS, st.booleans()), max_size=60)


def made_of(turns: list[tuple[list[str], bool]]) -> list[Message]:
    made = [Message("user", (Text("Go."),))]
    for number, (kinds, speaks) in enumerate(turns):
        parts: list[Part] = [Text(f"t{number}")]
        results: list[Part] = []
        for place, kind in enumerate(kinds):
            name = f"{number}.{place}"
            if kind == "call":
                parts.append(ToolUse(name, "note"))
                results.append(ToolResult(name, "note", "x"))
            else:
                parts.append(Text(name) if kind == "text" else Thinking(name))
        told = [*results, *([Text(f"u{number}")] if speaks or not results else [])]
        made += [Message("assistant", tuple(parts)), Message("user", tuple(told))]
    return made


@pytest.mark.spec("M5")
@given(TURNS, st.sampled_from([1, 4_000, 8_000, 16_000]))
@settings(max_examples=80, deadline=None)
def test_calls_and_results_are_dropped_together_and_no_text_is_lost(
    turns: list[tuple[list[str], bool]], window: int
) -> None:
    before = made_of(turns)
    after = trim(before, window)
    assert calls_without_result(after) == []
    assert [one.role for one in after] == [one.role for one in after if one.parts]
    assert all(one.role != other.role for one, other in pairwise(after))
    ids = {use.id for message in after for use in message.tool_uses}
    assert ids == {part.id for message in after for part in message.parts if isinstance(part, ToolResult)}
    assert "".join(message.text for message in after) == "".join(message.text for message in before)
    assert [use for message in before[-KEPT_MESSAGES:] for use in message.tool_uses if use.id not in ids] == []
    assert trim(before, window) == after


@pytest.mark.spec("M5")
def test_the_start_of_the_request_stays_stable_for_many_turns() -> None:
    """The provider's prompt cache stays valid until the cut moves, which happens in steps."""
    sent = [trim(conversation(number), 16_000) for number in range(60)]
    moved = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(sent))
    assert moved <= 4


@pytest.mark.spec("M5")
def test_the_loop_trims_only_with_a_known_context_window_and_only_the_request(tmp_path: Path) -> None:
    long = fixed_tool("long", "\n".join("x" * 300))
    for context, lines in ((None, 300), (4_000, 81)):
        harness = LoopHarness(tmp_path, scripted_reply(use("a1", "long", "{}")), tools=[long], context=context)
        assert harness.advance().kind == "done"
        [result] = [part for part in harness.model.requests[1][-1].parts if isinstance(part, ToolResult)]
        assert len(result.output.split("\n")) == lines
        assert len(harness.results()[0].output.split("\n")) == 300
