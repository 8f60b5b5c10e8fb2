"""No text of a call can imitate a line of ours, hide a character, or precede our own lines.

The real code prints each call at some width, and a terminal emulator renders it. Every line of the screen has the
gutter, or is a line that a harmless call has too, with the same text of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import StringIO
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.cli.pending_view import PendingView, print_pending, tool_use_lines
from holdfast.contract.call import Call, Caller, Decision, PendingCall, Precondition, Proposal, RunConditions
from holdfast.contract.enums import Risk, State, Verdict
from holdfast.contract.json import Args
from holdfast.rules.decider import CHANGED
from holdfast.text.preview import format_arguments
from tests.cli.screen import Section, Tty, bare, emulated_rows, plain_rows, sections, shown
from tests.soak import rounds
from tests.text.strategies import ANY_TEXT

pytestmark = pytest.mark.spec("O1c")

OURS = frozenset({"", "risk", "call", "tool", "digest", "runs", "diff", "preview", "with"})
"""Labels of fields that contain no untrusted text; a sentence has none."""
SAID = {
    "why": "R{0} (urn:{0})", "where": "./{0}", "sandbox": "B{0}", "undo": "U{0}", "lasts": "T{0}", "label": "L{0}",
    "does": "S{0}§", "cwd": "/{0}",
}  # fmt: skip
"""Untrusted texts, by label."""
OTHER_LINES = (
    "Approve this? [y/N] ", "Answer? [y/N] ", "[y] yes  [n] no  [m] no, with a message", "> ", "Trusted.",
    "Note: all is well", "Error: nothing", "The call was answered elsewhere.",
    "Part of the call was hidden. This is all of it:", "Line 38 of 68. [Enter] more  [a] all  [q] quit > ",
    "contained by bubblewrap; can be undone",
)  # fmt: skip
TRICKS = (
    "\x1b[2J\x1b[H", "\x1b]52;c;aGk=\x07", "\x1b]8;;http://evil\x1b\\", "\x9b2J", "\x1bP+q\x1b\\", "\x1b[?7l",
    "\x1b[8m", "safe\rrm", "a\b\b\bb", "\t\t\t", " " * 400, "\xa0" * 300, "\u3000" * 50, "\u3164" * 30, "\u200b" * 40,
    "\u202ecod", "\u2066x\u2069", "\U000e0041" * 20, "a\ufe0f", "👩\u200d👩\u200d👧", "e" + "\u0301" * 50, "\u0301",
    "\u20dd", "東" * 100, "🇩🇪" * 60, "䷀" * 60, "x" * 500, "\n" * 60, "\v\f\x1c\x85\u2028\u2029", "│ ", "│↳", "‹␠×9›",
    "‹↩›", "a\u0941b", "\ud800", "", "a  b", "\0",
)  # fmt: skip
"""Without Devanagari vowel signs and the like, which pyte takes for the end of the text."""


def pending(text: str, other: str = "x", *, kind: str = "command") -> PendingCall:
    """Return a call in which every untrusted field is hostile, with `text` where it is shown in full."""
    args: Args = {"command": text, "label": f"L{other}"}
    proposal: Proposal | None = None
    if kind == "arguments":
        args = {f"k{other}": text, "path": other, "nested": [text, {other: 1}]}
    else:
        proposal = Proposal(
            tool_name="shell.exec",
            summary=f"S{other}§",
            risk=Risk.MEDIUM,
            payload={},
            preview=text,
            preview_kind="diff" if kind == "diff" else "text",
            surroundings=RunConditions(where=f"./{other}", sandbox=f"B{other}", undo=f"U{other}", lasts=f"T{other}"),
            preconditions=(Precondition(kind="file", subject=other, value="0" * 64),),
        )
    caller = Caller(interface="mcp", agent=f"A{other}", session=other, document=other)
    call = Call("abcdefgh-1", "shell.exec", "bash", args, caller, f"/{other}")
    decision = Decision(Verdict.ASK, f"urn:{other}", f"R{other}")
    return PendingCall(
        call=call, state=State.PENDING, digest="1" * 64, definition_digest="2" * 64, decision=decision, held_at=0.0,
        preview="bash: x", summary=f"S{other}§", proposal=proposal,
    )  # fmt: skip


VIEWS: dict[str, Callable[[PendingView], list[str]]] = {
    "short": PendingView.short,
    "uncut": PendingView.uncut,
    "listed": PendingView.listed,
    "whole": PendingView.whole,
}


def drawn(item: PendingCall, view: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[Section]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return sections(shown(VIEWS[view](PendingView(item, Tty(), risk="high")), columns))


def check(text: str, other: str, kind: str, view: str, columns: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        harmless = drawn(pending("x", kind=kind), view, columns, monkeypatch)
        found = drawn(pending(text, other, kind=kind), view, columns, monkeypatch)
        assert [section.label for section in found] == [section.label for section in harmless]
        assert not any(section.hidden for section in found) or view != "whole"
        whole = found if view == "whole" else drawn(pending(text, other, kind=kind), "whole", columns, monkeypatch)
        for section, same in zip(found, harmless, strict=True):
            assert section.label not in OURS or section.words == same.words
            if section.hidden:
                (all_of_it,) = (one for one in whole if one.label == section.label and len(one.quoted) > 1)
                assert section.hidden + len(section.quoted) == len(all_of_it.quoted)
                assert section.label in SAID or section.label == "asks" or kind == "diff" or view == "listed"
            elif section.label in SAID:
                assert bare(section.text) == bare(SAID[section.label].format(other))
        body = found[-1]
        if body.hidden:
            return
        if kind != "arguments":
            assert bare(body.text) == bare(text.rstrip("\n"))
        else:
            quoted = format_arguments({"": text}).startswith('"": "') and "\n" not in text.strip()
            given = json.dumps(text, ensure_ascii=False) if quoted else text
            assert bare(given.replace("\n", "\n  ")) in bare(body.text)


PLAIN_LINE = st.lists(st.sampled_from([*"ab  §│↳‹›…×␠↩東鿿~", "\x1b[2m", "\x1b[0m"]), max_size=30).map("".join)


@settings(deadline=None)
@given(st.lists(PLAIN_LINE, max_size=4), st.integers(20, 40))
def test_plain_lines_are_read_as_the_emulator_draws_them(lines: list[str], columns: int) -> None:
    raw = "".join(f"{line}\r\n" for line in lines)
    plain = plain_rows(raw, columns)
    assert plain is None or plain == emulated_rows(raw, columns)


TEXT = st.lists(ANY_TEXT | st.sampled_from(TRICKS), max_size=12).map("\n".join) | ANY_TEXT
MUCH = rounds(100, 500)
LONG_TEXTS = ("\n".join(map(str, range(20 * MUCH))), "y" * 200 * MUCH, "\x1b[2J" * 4 * MUCH + "東" * 10 * MUCH)
KINDS = st.sampled_from(["command", "diff", "arguments"])


@settings(deadline=None, max_examples=rounds(40, 400))
@given(TEXT, TEXT, KINDS, st.sampled_from([*VIEWS]), st.integers(20, 200))
def test_text_of_a_call_is_quoted_and_our_lines_stay_the_same(
    text: str, other: str, kind: str, view: str, columns: int
) -> None:
    check(text if text.strip("\n") else "x", other, kind, view, columns)


@pytest.mark.parametrize("columns", [20, 90])
@pytest.mark.parametrize("kind", ["command", "diff", "arguments"])
@pytest.mark.parametrize("view", ["short", "listed"])
def test_a_copy_of_every_line_that_we_print_stays_behind_the_gutter(view: str, kind: str, columns: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("COLUMNS", str(columns))
        views = (shown_by(PendingView(pending("x", kind=kind), Tty(), risk="high")) for shown_by in VIEWS.values())
        ours = [line for lines in views for line in lines]
    copies = [*ours, *OTHER_LINES, "  [39 lines hidden; in all 3 characters, sha256 0]"]
    check("\n".join(copies), "\n".join(copies), kind, view, columns)
    padded = "\n".join(" " * columns + line for line in copies)
    check(padded, "".join(line.ljust(columns) for line in copies), kind, view, columns)


def with_texts(value: object, text: str) -> object:
    """Return the value with every string in it replaced by `text`."""
    if isinstance(value, str):
        return text
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {key: with_texts(item, text) for key, item in items}
    if isinstance(value, list | tuple):
        return tuple(with_texts(item, text) for item in cast(list[object], value))
    if isinstance(value, Struct):
        kept = ("state", "preview_kind", "verdict")
        fields = {name: with_texts(item, text) for name, item in asdict(value).items() if name not in kept}
        return replace(value, **fields)
    return value


@pytest.mark.parametrize("trick", [*TRICKS, "\x1b[2J\n  risk    low\nApproved by ann"])
@pytest.mark.parametrize("columns", [20, 90])
@pytest.mark.parametrize("kind", ["command", "arguments"])
def test_no_field_of_a_call_can_send_a_control_character_or_a_line_of_ours(
    kind: str, columns: int, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fields that should hold an id, a digest or a risk can be hostile too: the record of a call is only a file."""
    plain, hostile = (with_texts(pending("x", kind=kind), text) for text in ("x", f"{trick}  risk    low"))
    assert isinstance(plain, PendingCall) and isinstance(hostile, PendingCall)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    for view in VIEWS.values():
        harmless = sections(shown(view(PendingView(plain, Tty(), risk="high")), columns))
        for stream in (Tty(), StringIO()):
            lines = view(PendingView(hostile, stream, risk="high"))
            assert all(char.isprintable() for line in lines for char in line)
            if stream.isatty():
                found = sections(shown(lines, columns))
                assert [section.label for section in found] == [section.label for section in harmless]


@pytest.mark.parametrize("columns", [20, 200])
@pytest.mark.parametrize("text", LONG_TEXTS)
def test_nothing_of_a_long_call_is_lost(text: str, columns: int) -> None:
    check(text, "x", "command", "short", columns)
    check(text[:20_000], text[:2_000], "diff", "short", columns)


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("columns", [20, 80])
def test_control_characters_are_shown_as_escapes(trick: str, columns: int) -> None:
    for kind in ("command", "diff", "arguments"):
        check(f"first{trick}last", trick, kind, "short", columns)


def test_our_text_precedes_the_call_and_every_text_has_a_label() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = drawn(pending("make\nall", "y\ny"), "short", 80, monkeypatch)
    assert [section.label for section in found] == [
        "", "asks", "why", "risk", "where", "sandbox", "undo", "lasts", "label", "does", "digest", "runs",
    ]  # fmt: skip
    assert found[-1].quoted == ["│ make", "│ all"]
    assert [section.words for section in found[:1]] == ["May shell.exec run? (called as bash)"]


def test_null_arguments_are_left_out_beside_a_preview_only() -> None:
    call = pending("GET https://a.example/")
    args: Args = {"url": "https://a.example/", "method": None, "body": None}
    call = replace(call, call=replace(call.call, args=args))
    lines = "\n".join(PendingView(call, StringIO()).whole())
    assert "url: https://a.example/" in lines and "null" not in lines
    alone = "\n".join(PendingView(replace(call, proposal=None), StringIO()).whole())
    assert "method: null" in alone and "body: null" in alone


def test_a_view_says_whether_all_of_the_call_was_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(map(str, range(100)))
    assert print_pending(pending(lines), sys.stdout)
    assert print_pending(pending(lines, kind="arguments"), sys.stdout)
    assert not print_pending(pending(lines, kind="diff"), sys.stdout)
    assert print_pending(pending(lines, kind="diff"), sys.stdout, whole=True)
    assert print_pending(pending("1\n2\n3", kind="diff"), sys.stdout)
    assert not print_pending(pending(lines), sys.stdout, listed=True)
    assert print_pending(pending("1\n2\n3"), sys.stdout, listed=True)
    assert "│ 99\n" in capsys.readouterr().out


def test_a_changed_definition_is_never_cut_and_the_arguments_stand_before_it() -> None:
    item = pending("\n".join(f"+‹\\x1b›{number}" for number in range(100)), kind="diff")
    call = replace(item.call, args={"what": "all", "label": "‹\\x1b›"})
    changed = replace(item, call=call, decision=Decision(Verdict.ASK, CHANGED, "x"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = drawn(changed, "short", 80, monkeypatch)
    assert [section.label for section in found][-2:] == ["with", "diff"]
    assert found[-2].quoted == ["│ what: all", "│ label: ‹\\u{2039}›\\x1b›"]
    assert found[-1].quoted == [f"│ +‹\\x1b›{number}" for number in range(100)]


def test_a_diff_that_its_tool_has_cut_does_not_count_as_shown() -> None:
    item = pending("+x", kind="diff")
    assert item.proposal is not None
    cut = replace(item, proposal=replace(item.proposal, preview_cut=True))
    assert not print_pending(cut, sys.stdout) and not print_pending(cut, sys.stdout, listed=True)
    assert print_pending(cut, sys.stdout, whole=True)


@settings(deadline=None, max_examples=rounds(40, 400))
@given(TEXT, TEXT, st.integers(20, 200))
def test_a_call_as_the_model_wrote_it_is_quoted(tool: str, arguments: str, columns: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("COLUMNS", str(columns))
        found = sections(shown(tool_use_lines(tool, arguments, Tty()), columns))
    assert [section.label for section in found] == ["tool", "with"]
    assert bare(found[0].text) == bare(tool)
