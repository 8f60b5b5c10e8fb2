"""The cron tools without a runtime: what they propose and show. tests/factory/test_schedules.py has the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.contract.call import Caller, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import ScheduleRefused
from holdfast.contract.result import Result
from holdfast.contract.schedules import Schedule, ScheduledWork, SchedulePlan, Schedules, ScheduleStatus
from holdfast.contract.tool import Tool
from holdfast.tools import schemas
from holdfast.tools.cron import CRON_ADD, CRON_LIST, CRON_REMOVE
from tests.tools.files.fake_context import FakeContext

pytestmark = pytest.mark.spec("B14j")
EVIL = "/p/\x1b[2Ja.chat"
HOUR = 1_800_000_000.0
"""2027-01-15 08:00 UTC."""


def status(name: str, work: ScheduledWork, **more: Any) -> ScheduleStatus:
    schedule = Schedule(
        id=name, work=work, caller=Caller(interface="cron"), cwd="/p", by="cli:ada", call="c1", created=1.0
    )
    return ScheduleStatus(schedule=schedule, next_at=HOUR, **more)


CALL = status(
    "aaaa2222",
    ScheduledWork(expression="@daily", zone="UTC", tool="file.read", args={"path": "notes.txt", "limit": None}),
    last_at=HOUR - 86_400,
    last_call="aaaa2222-7",
    last_state="pending",
    missed=3,
    missed_note="Missed 3 runs from a to b: no daemon was running.",
)
DOCUMENT = status("bbbb3333", ScheduledWork(expression="0 3 * * *", zone="UTC", document=EVIL), running=True)


class FakeSchedules:
    """Satisfies `Schedules` with fixed schedules."""

    def list(self) -> list[ScheduleStatus]:
        return [CALL, DOCUMENT]

    def check(self, work: ScheduledWork, ctx: Context) -> SchedulePlan:
        if work.tool == "nothing":
            raise ScheduleRefused("There is no tool 'nothing'.")
        return SchedulePlan(work=work, rights="those of this caller (interface cli)")

    def add(self, work: ScheduledWork, ctx: Context) -> ScheduleStatus:
        return status("cccc4444", work)

    def find(self, schedule: str, ctx: Context) -> ScheduleStatus:
        found = [one for one in self.list() if one.schedule.id == schedule]
        if not found:
            raise ScheduleRefused("There is no such schedule.")
        return found[0]

    def remove(self, schedule: str, ctx: Context) -> ScheduleStatus:
        return self.find(schedule, ctx)


class CronContext(FakeContext):
    def service(self, protocol: type[Any]) -> Any:
        assert protocol is Schedules
        return FakeSchedules()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return cast(Context, CronContext(tmp_path))


def proposed(tool: Tool, args: dict[str, Any], ctx: Context) -> Proposal | Result:
    assert tool.propose is not None
    valid = tool.schema.validate(args)
    return cast("Proposal | Result", tool.propose(valid, ctx))


def applied(tool: Tool, proposal: Proposal | Result, ctx: Context) -> Result:
    assert tool.apply is not None and isinstance(proposal, Proposal)
    result = cast(Result, tool.apply(proposal.payload, ctx))
    assert tool.output_validator is not None and tool.output_validator.is_valid(result.structured)
    return result


def test_a_new_schedule_is_proposed_with_its_times_its_call_and_whose_rights_it_has(ctx: Context) -> None:
    arguments = '{"path": "a.txt", "limit": null}'
    proposal = proposed(
        CRON_ADD,
        {"expression": "30 2 * * MON-FRI", "tool": "file.read", "arguments": arguments, "zone": "Europe/Berlin"},
        ctx,
    )
    assert isinstance(proposal, Proposal) and proposal.risk is Risk.MEDIUM
    lines = proposal.preview.splitlines()
    assert lines[0] == "When: At 02:30 on Monday through Friday (30 2 * * MON-FRI, Europe/Berlin)"
    assert lines[1].startswith("Next: 20") and lines[1].count(" 02:30 ") == 3
    assert lines[2:6] == [
        "Call: file.read", "  path: a.txt", "  limit: null", "Rights: those of this caller (interface cli)"
    ]  # fmt: skip
    assert "pending if it needs a person" in lines[6]
    assert 'file.read path="a.txt" at 30 2' in proposal.summary
    done = applied(CRON_ADD, proposal, ctx)
    assert done.output == "Added schedule cccc4444. It is due next at 2027-01-15 09:00 +0100."


def test_the_message_for_a_document_cannot_imitate_other_lines_of_the_proposal(ctx: Context) -> None:
    message = "Go on.\nRights: all of them\x1b[2J"
    proposal = proposed(CRON_ADD, {"expression": "@hourly", "document": EVIL, "message": message}, ctx)
    assert isinstance(proposal, Proposal) and "\x1b" not in proposal.preview
    assert "\nRights: all" not in proposal.preview and "\n  Rights: all" in proposal.preview
    assert "Say first, unless it waits for something:\n  Go on.\n" in proposal.preview


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"expression": "soon", "tool": "a"}, "Cannot read 'soon' as a schedule"),
        ({"expression": "@daily", "tool": "a", "zone": "Mars"}, "There is no time zone 'Mars'"),
        ({"expression": "@daily"}, "either a tool to call or a document"),
        ({"expression": "@daily", "tool": "a", "document": "b"}, "either a tool to call or a document"),
        ({"expression": "@daily", "document": "a", "arguments": "{}"}, "A document has no arguments"),
        ({"expression": "@daily", "tool": "a", "message": "x"}, "A tool gets no message"),
        ({"expression": "@daily", "tool": "a", "arguments": "[1]"}, "must be a JSON object"),
        ({"expression": "@daily", "tool": "a", "arguments": "{"}, "not valid JSON"),
        ({"expression": "@daily", "tool": "a", "arguments": f'{{"a":"{"x" * 70_000}"}}'}, "at most 65,536"),
        ({"expression": "@daily", "tool": "nothing"}, "There is no tool 'nothing'"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_in_words(args: dict[str, Any], said: str, ctx: Context) -> None:
    result = proposed(CRON_ADD, args, ctx)
    assert isinstance(result, Result) and said in (result.error or "")


def test_a_removal_shows_what_is_removed(ctx: Context) -> None:
    proposal = proposed(CRON_REMOVE, {"id": "bbbb3333"}, ctx)
    assert isinstance(proposal, Proposal) and proposal.risk is Risk.MEDIUM and "\x1b" not in proposal.preview
    assert "Advance: /p/" in proposal.preview and "A run that has begun goes on." in proposal.preview
    assert applied(CRON_REMOVE, proposal, ctx).output == "Removed schedule bbbb3333."
    refused = proposed(CRON_REMOVE, {"id": "zzzz"}, ctx)
    assert isinstance(refused, Result) and refused.error == "There is no such schedule."


def test_the_list_has_a_line_for_each_and_says_what_was_missed(ctx: Context) -> None:
    execute = CRON_LIST.execute
    assert execute is not None
    result = cast(Result, execute({}, ctx))
    assert CRON_LIST.output_validator is not None and CRON_LIST.output_validator.is_valid(result.structured)
    header, call, document, note = result.output.splitlines()
    assert header.split() == ["id", "when", "next", "what", "by", "last"]
    assert call.startswith("aaaa2222  @daily UTC") and 'file.read path="notes.txt"' in call
    assert call.endswith("pending (aaaa2222-7), 3 missed")
    assert "2027-01-15 08:00 +0000" in call and "limit" not in call
    assert document.endswith("running") and "\x1b" not in document
    assert note == "aaaa2222: Missed 3 runs from a to b: no daemon was running."
    assert CRON_LIST.effects == {"fs.read"} and CRON_LIST.propose is None


def test_without_cronsim_the_tools_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    for tool in (CRON_LIST, CRON_ADD, CRON_REMOVE):
        assert tool.unavailable is not None
        assert tool.unavailable() == "it needs cronsim. Install it: pip install 'holdfast[serve]'"
