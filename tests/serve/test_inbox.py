"""The rows of the inbox: who asks, what waits, when it expires, and what filters keep."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.call import PendingCall, Proposal
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.contract.widening import Widening
from holdfast.rules.decider import CHANGED
from holdfast.serve.inbox import (
    MAX_GROUPED,
    MAX_ROWS,
    MOST,
    CallView,
    Choices,
    Filters,
    GroupView,
    RowCache,
    call_address,
    grouped,
    pending_views,
)
from holdfast.serve.projects import ServedProject
from holdfast.store.process_identity import this_process
from tests.serve.projects_on_disk import Disk, only
from tests.soak import rounds
from tests.store.calls import ASKED, make_pending


@pytest.fixture
def served(disk: Disk) -> Generator[ServedProject]:
    projects = disk.serve()
    (project,) = projects
    yield project
    asyncio.run(projects.close())


def _shown(project: ServedProject, calls: Iterable[PendingCall]) -> list[CallView | GroupView]:
    return grouped([CallView.of(project, pending) for pending in calls])


def _only_group(project: ServedProject, calls: Iterable[PendingCall]) -> GroupView:
    (group,) = _shown(project, calls)
    assert isinstance(group, GroupView)
    return group


def _text(group: GroupView, row: int) -> str:
    """What a person reads about one call of a group."""
    cells = " ".join(f"{name} {shown.striptags()}" for name, shown in group.rows[row].differing)
    return f"{group.common.striptags()} {cells} {group.rows[row].proposal or ''}"


@pytest.mark.spec("E3")
def test_a_row_says_who_asks_and_what_waits(disk: Disk) -> None:
    disk.hold()
    projects = disk.serve()
    (project,) = projects
    pending = only(projects)
    view = CallView.of(project, pending)
    assert (view.waits, view.risk, view.parts.caller.striptags()) == ("nobody", "medium", "cli")
    assert view.expires_at is not None and view.expires_at > pending.held_at
    waiting = replace(pending, waiter=this_process())
    assert CallView.of(project, waiting).waits == "a program"
    dead = replace(pending, waiter=replace(this_process(), pid=2**30))
    assert CallView.of(project, dead).waits == "a program that has ended"
    caller = replace(pending.call.caller, document=str(Path(project.folder) / "a.chat"), agent="coder")
    of_document = CallView.of(project, replace(pending, call=replace(pending.call, caller=caller)))
    assert of_document.waits == "its document"
    assert of_document.parts.caller.striptags() == "cli ▸ agent coder ▸ document a.chat"
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_filters_keep_what_they_name(disk: Disk) -> None:
    disk.hold(path="one.txt")
    disk.hold(path="two.txt")
    projects = disk.serve()
    views = pending_views(projects)
    assert [len(pending_views(projects, kept.keeps)) for kept in (
        Filters(), Filters(text="ONE.txt"), Filters(tool="file.write"), Filters(tool="shell.exec"),
        Filters(risk="medium"), Filters(risk="high"), Filters(agent="none"), Filters(project="none"),
    )] == [2, 1, 2, 0, 2, 0, 0, 0]  # fmt: skip
    choices = Choices.of(views)
    assert (choices.tools, choices.agents, len(choices.projects)) == (["file.write"], [], 1)
    asyncio.run(projects.close())


@pytest.mark.spec("E3c")
def test_the_address_of_a_call_cannot_leave_its_place() -> None:
    assert call_address("k", "a/../b?c#d") == "/calls/k/a%2F..%2Fb%3Fc%23d"


@pytest.mark.spec("E7d")
def test_a_group_shows_the_rest_of_an_object_that_differs_in_one_member(served: ServedProject) -> None:
    calls = [make_pending(args={"to": {"id": f"v{n}", "rest": "RISKY"}, "same": "SHARED"}) for n in range(3)]
    group = _only_group(served, calls)
    assert (group.names, group.columns) == (["to.id"], ["to"])
    for row in range(3):
        text = _text(group, row)
        assert "RISKY" in text and f"v{row}" in text and "SHARED" in text


@pytest.mark.spec("E7d")
def test_a_group_shows_an_argument_whose_name_begins_another(served: ServedProject) -> None:
    group = _only_group(served, [make_pending(args={"a": "HIDDEN", "a.b": f"v{n}"}) for n in range(3)])
    assert "HIDDEN" in group.common.striptags()
    assert [_text(group, row).count(f"v{row}") for row in range(3)] == [1, 1, 1]


@pytest.mark.spec("E7d")
def test_a_group_of_calls_with_other_names_shows_all_arguments_of_each(served: ServedProject) -> None:
    many: Args = {f"n{number:03}": number for number in range(80)}
    group = _only_group(served, [make_pending(args={**many, f"z{n}": f"LAST{n}"}) for n in range(3)])
    assert (group.names, group.columns, group.common) == (["all arguments"], [], "")
    assert all(f"z{row} LAST{row}" in _text(group, row) and "n079" in _text(group, row) for row in range(3))


_NAMES = st.sampled_from(["a", "b", "a.b", "", "b.a"])


@pytest.mark.spec("E7d")
@settings(max_examples=rounds(50, 1_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.dictionaries(_NAMES, st.none() | st.lists(_NAMES, unique=True), min_size=1), data=st.data())
def test_a_group_hides_no_value(served: ServedProject, names: dict[str, list[str] | None], data: st.DataObject) -> None:
    calls: list[PendingCall] = []
    values: list[list[str]] = []
    for _ in range(3):
        used: list[str] = []

        def value(used: list[str] = used) -> str:
            used.append(data.draw(st.sampled_from(["VALUE1", "VALUE2", "VALUE3"])))
            return used[-1]

        args: Args = {}
        for name, inner in names.items():
            args[name] = value() if inner is None else {each: value() for each in inner}
        calls.append(make_pending(args=args))
        values.append(used)
    group = _only_group(served, calls)
    for row, used in enumerate(values):
        assert sorted(re.findall(r"VALUE\d", _text(group, row))) == sorted(used)


@pytest.mark.spec("E7d")
def test_calls_of_several_callers_are_not_one_group(served: ServedProject) -> None:
    def made(agent: str) -> PendingCall:
        pending = make_pending()
        return replace(pending, call=replace(pending.call, caller=replace(pending.call.caller, agent=agent)))

    shown = _shown(served, map(made, ["good", "good", "evil", "good"]))
    assert sorted(len(item.views) if isinstance(item, GroupView) else 1 for item in shown) == [1, 3]
    assert all(
        view.parts.caller == item.first.parts.caller
        for item in shown if isinstance(item, GroupView) for view in item.views
    )  # fmt: skip


@pytest.mark.spec("E7d")
@pytest.mark.parametrize(("count", "sizes"), [(20, [20]), (21, [10, 11]), (45, [15, 15, 15])])
def test_a_large_group_is_divided_into_groups_that_a_person_can_look_through(
    served: ServedProject, count: int, sizes: list[int]
) -> None:
    calls = [make_pending(args={"path": f"{n}.txt"}) for n in range(count)]
    groups = _groups(_shown(served, calls))
    assert [len(group.views) for group in groups] == sizes
    assert [view.call_id for group in groups for view in group.views] == [pending.call.id for pending in calls]


@pytest.mark.spec("E7d")
def test_of_many_groups_the_oldest_and_the_chosen_one_are_shown_whole(served: ServedProject) -> None:
    calls = [replace(make_pending(args={"path": f"{n}.txt"}), held_at=float(n)) for n in range(10 * MOST)]
    views = [CallView.of(served, pending) for pending in calls]
    groups = _groups(grouped(views))
    assert [len(group.rows) for group in groups] == [MOST] * (MAX_ROWS // MOST) + [0] * (10 - MAX_ROWS // MOST)
    assert [len(group.views) for group in groups] == [MOST] * 10
    chosen = calls[-1].call.id
    groups = _groups(grouped(views, chosen))
    assert [bool(group.rows) for group in groups] == [True, *[False] * 8, True]
    assert groups[-1].rows[-1].view.call_id == chosen


@pytest.mark.spec("E7d")
@pytest.mark.parametrize(
    ("content", "preview", "is_shown_once"),
    [
        ("a\nb\n", "--- /dev/null\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n", True),
        ("a\nb\n", "--- /dev/null\n+++ x\n@@ -0,0 +1,3 @@\n+a\n+b\n+c\n", False),
        ("a\nb\n", "--- x\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n", False),
        ("a\nb\n", "--- /dev/null\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n-c\n", False),
        ("a", "--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n", False),
        ("", "--- /dev/null\n", True),
    ],
)
def test_a_group_leaves_out_a_diff_that_only_repeats_the_content_of_a_new_file(
    served: ServedProject, content: str, preview: str, is_shown_once: bool
) -> None:
    def made(number: int) -> PendingCall:
        pending = make_pending(args={"path": f"{number}.txt", "content": content + f"{number}\n" * number})
        written = "".join(f"+{number}\n" for _ in range(number))
        proposal = Proposal(
            tool_name="write", summary="", risk=Risk.LOW, payload={}, preview=preview + written, preview_kind="diff"
        )
        return replace(pending, proposal=proposal)

    group = _only_group(served, [made(number) for number in range(3)])
    assert (group.rows[0].proposal is None) is is_shown_once


def _groups(items: Iterable[CallView | GroupView]) -> list[GroupView]:
    return [item for item in items if isinstance(item, GroupView)]


WIDENED = Widening(network=True)
ALONE = [{"secrets": (".env",)}, {"approvals_needed": 2}, {"widened": WIDENED}, {"definition_only": True},
         {"decision": replace(ASKED, source=CHANGED)}]  # fmt: skip


@pytest.mark.spec("E7d")
@pytest.mark.parametrize("fields", ALONE, ids=lambda fields: next(iter(fields)))
def test_a_call_with_a_warning_is_a_row_of_its_own(served: ServedProject, fields: dict[str, Any]) -> None:
    shown = _shown(served, [replace(make_pending(), **fields) for _ in range(3)])
    assert [type(item) for item in shown] == [CallView] * 3


LARGE: list[Args] = [
    {"content": "x" * MAX_GROUPED},
    {"x" * MAX_GROUPED: 1},
    {"list": [1 for _ in range(MAX_GROUPED)]},
    {"deep": {"a": ["x" * 9_000, {"b": "x" * 9_000}]}},
]


@pytest.mark.spec("E7d")
@pytest.mark.parametrize("args", LARGE, ids=range(len(LARGE)))
def test_a_large_call_is_a_row_of_its_own(served: ServedProject, args: Args) -> None:
    shown = _shown(served, [make_pending(args=args) for _ in range(3)])
    assert [type(item) for item in shown] == [CallView] * 3


@pytest.mark.spec("E7d")
def test_a_call_with_a_large_preview_is_a_row_of_its_own(served: ServedProject) -> None:
    proposal = Proposal(tool_name="t", summary="s", risk=Risk.LOW, payload={}, preview="x" * MAX_GROUPED)
    shown = _shown(served, [replace(make_pending(), proposal=proposal) for _ in range(3)])
    assert [type(item) for item in shown] == [CallView] * 3


@pytest.mark.spec("E7d")
def test_a_secret_in_a_grouped_call_is_masked(served: ServedProject) -> None:
    token = "ghp_" + "a1B2" * 9
    group = _only_group(served, [make_pending(args={"path": f"{n} {token}", "same": token}) for n in range(3)])
    assert all(token not in _text(group, row) and _text(group, row).count("[secret") == 2 for row in range(3))


@pytest.mark.spec("E3")
def test_cached_rows_hold_no_arguments_and_the_oldest_are_dropped(served: ServedProject) -> None:
    cache = RowCache(max_chars=20_000)
    long = "y" * 1_000_000
    first = replace(make_pending(args={"path": "a.txt", "content": long}), preview="x" * 1_000)
    kept = cache.parts(served, first)
    assert cache.parts(served, first) is kept and cache.chars < 5_000
    for _ in range(50):
        cache.parts(served, replace(make_pending(), preview="x" * 1_000))
        assert cache.chars <= 20_000
    last = make_pending()
    assert cache.parts(served, last) is cache.parts(served, last)
    assert cache.parts(served, first) is not kept
    huge = replace(make_pending(), preview="x" * 30_000)
    assert cache.parts(served, huge) is not cache.parts(served, huge)
    assert cache.chars <= 20_000


@pytest.mark.spec("E3")
def test_threads_share_the_cached_rows(served: ServedProject) -> None:
    cache = RowCache(max_chars=10_000)
    calls = [make_pending() for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(partial(cache.parts, served), calls * 5))
    assert len(found) == 200 and 0 < cache.chars <= 10_000
