"""Bursts, quiet hours, answered calls, failing channels and restarts, with a controlled clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.config import NotifyConfig
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Risk, State
from holdfast.notify.channel import Channel, ChannelFailed
from holdfast.notify.notifier import MAX_WAITING, Notifier, QuietHours
from holdfast.store.redact import Redactor
from tests.notify.support import PROJECT, FakeClock, FakeInbox, RecordingChannel, pending_call
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7n")


def notifier_of(
    *channels: Channel,
    inbox: FakeInbox | None = None,
    clock: FakeClock | None = None,
    state: Path | None = None,
    redactor: Redactor | None = None,
    seconds: float = 30,
    **config: Any,
) -> Notifier:
    clock = clock or FakeClock()
    return Notifier(
        NotifyConfig(**config),
        channels,
        inbox or FakeInbox(),
        redactor=redactor or Redactor(),
        state=state,
        clock=clock,
        sleep=clock.sleep,
        seconds=seconds,
    )


@asynccontextmanager
async def running(notifier: Notifier) -> AsyncGenerator[None]:
    task = asyncio.create_task(notifier.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ids(channel: RecordingChannel) -> list[list[str]]:
    return [[question.id for question in message.questions] for message in channel.messages]


def add(notifier: Notifier, calls: Sequence[PendingCall], start: int = 1) -> None:
    for entry, call in enumerate(calls, start):
        notifier.add(entry, call, PROJECT)


def test_calls_of_one_burst_are_one_notification_and_later_ones_another() -> None:
    async def scenario() -> None:
        channel, clock = RecordingChannel(), FakeClock()
        notifier = notifier_of(channel, clock=clock)
        async with running(notifier):
            notifier.add(1, pending_call("a"), PROJECT)
            await clock.asleep()
            await clock.advance(1.9)
            notifier.add(2, pending_call("b"), PROJECT)
            await clock.advance(0)
            assert ids(channel) == []
            await clock.advance(0.1)
            assert ids(channel) == [["a", "b"]]
            notifier.add(3, pending_call("c"), PROJECT)
            await clock.asleep()
            await clock.advance(2)
            assert ids(channel) == [["a", "b"], ["c"]]
            await clock.advance(60)
            assert len(channel.messages) == 2

    run(scenario())


def test_calls_that_keep_arriving_do_not_delay_a_notification() -> None:
    async def scenario() -> None:
        channel, clock = RecordingChannel(), FakeClock()
        notifier = notifier_of(channel, clock=clock)
        async with running(notifier):
            for number in range(20):
                notifier.add(number + 1, pending_call(f"c{number}"), PROJECT)
                await clock.asleep()
                await clock.advance(0.5)
            assert [len(each) for each in ids(channel)] == [4, 4, 4, 4, 4]

    run(scenario())


def test_a_call_that_was_answered_before_the_burst_ends_is_left_out() -> None:
    async def scenario() -> None:
        channel, inbox = RecordingChannel(), FakeInbox()
        notifier = notifier_of(channel, inbox=inbox)
        add(notifier, [pending_call("a"), pending_call("b")])
        inbox.answered.add("a")
        await notifier.flush()
        assert ids(channel) == [["b"]]

    run(scenario())


def test_nothing_is_sent_if_all_calls_were_answered() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel, inbox=FakeInbox(answered={"a"}))
        add(notifier, [pending_call("a"), pending_call("b", state=State.APPROVED)])
        assert await notifier.flush() == []
        assert channel.messages == []
        assert notifier.last_entry(PROJECT) == 2

    run(scenario())


def test_links_and_expiry_come_from_the_inbox() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel, inbox=FakeInbox(base="http://127.0.0.1:4455"))
        add(notifier, [pending_call("a")])
        await notifier.flush()
        add(notifier, [pending_call("b"), pending_call("c")], 2)
        await notifier.flush()
        one, two = channel.messages
        assert one.link == "http://127.0.0.1:4455/calls/a"
        assert two.link == "http://127.0.0.1:4455/"
        assert one.questions[0].expires_at == 1_060.0

    run(scenario())


def test_an_inbox_that_fails_loses_no_notification() -> None:
    class Broken(FakeInbox):
        def is_pending(self, project: str, pending: PendingCall) -> bool:
            raise OSError("the ledger is locked")

        def link(self, project: str, pending: PendingCall | None) -> str:
            raise OSError("no page")

    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel, inbox=Broken())
        add(notifier, [pending_call("a"), pending_call("b")])
        await notifier.flush()
        assert ids(channel) == [["a", "b"]] and channel.messages[0].link == ""

    run(scenario())


def test_calls_below_the_lowest_risk_are_left_out_and_unknown_ones_are_not() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel, min_risk=Risk.HIGH)
        risks = {"low": Risk.LOW, "medium": Risk.MEDIUM, "high": Risk.HIGH, "unknown": None}
        add(notifier, [pending_call(name, risk=risk) for name, risk in risks.items()])
        await notifier.flush()
        assert ids(channel) == [["high", "unknown"]]

    run(scenario())


def test_quiet_hours_hold_a_notification_until_they_end_and_drop_what_was_answered() -> None:
    async def scenario() -> None:
        channel, inbox = RecordingChannel(), FakeInbox()
        clock = FakeClock(datetime.fromisoformat("2026-03-03T23:30").timestamp())
        notifier = notifier_of(channel, inbox=inbox, clock=clock, quiet="22:00-07:00")
        async with running(notifier):
            notifier.add(1, pending_call("a"), PROJECT)
            notifier.add(2, pending_call("b"), PROJECT)
            await clock.asleep()
            await clock.advance(2)
            await clock.advance(4 * 3600)
            inbox.answered.add("a")
            assert channel.messages == [] and notifier.last_entry(PROJECT) == 0
            await clock.advance(3.5 * 3600)
            assert ids(channel) == [["b"]]
            assert notifier.last_entry(PROJECT) == 2

    run(scenario())


def test_channels_are_used_at_the_same_time() -> None:
    async def scenario() -> None:
        meeting = asyncio.Barrier(3)
        channels = [RecordingChannel(name=f"c{number}", behave=meeting.wait) for number in range(3)]
        notifier = notifier_of(*channels)
        add(notifier, [pending_call()])
        assert [each.outcome for each in await notifier.flush()] == ["sent"] * 3

    run(scenario())


def test_a_failing_channel_warns_once_and_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise ChannelFailed("host.example answered with status 500.")

    def crash() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        good, bad = RecordingChannel(name="good"), RecordingChannel(name="webhook", behave=refuse)
        broken = RecordingChannel(name="ntfy", behave=crash)
        notifier = notifier_of(good, bad, broken)
        for entry in (1, 2, 3):
            notifier.add(entry, pending_call(f"c{entry}"), PROJECT)
            done = {each.channel: (each.outcome, each.reason) for each in await notifier.flush()}
            assert done == {
                "good": ("sent", ""),
                "webhook": ("failed", "host.example answered with status 500."),
                "ntfy": ("failed", "An internal error occurred (ZeroDivisionError)."),
            }
        assert len(good.messages) == 3
        assert caplog.text.count("host.example") == 1 and caplog.text.count("ZeroDivisionError") == 1
        bad.behave = None
        notifier.add(4, pending_call("c4"), PROJECT)
        await notifier.flush()
        bad.behave = refuse
        notifier.add(5, pending_call("c5"), PROJECT)
        await notifier.flush()
        assert caplog.text.count("host.example") == 2, "it worked in between"

    with caplog.at_level(logging.WARNING, "holdfast"):
        run(scenario())


def test_a_channel_that_hangs_is_given_up() -> None:
    async def scenario() -> None:
        good = RecordingChannel(name="good")
        stuck = RecordingChannel(name="stuck", behave=asyncio.Event().wait)
        notifier = notifier_of(good, stuck, seconds=0.05)
        add(notifier, [pending_call()])
        done = await notifier.flush()
        assert [(each.channel, each.outcome) for each in done] == [("good", "sent"), ("stuck", "failed")]
        assert notifier.last_entry(PROJECT) == 1

    run(scenario())


def test_a_restart_neither_repeats_nor_loses_a_notification(tmp_path: Path) -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        calls = [pending_call(f"c{number}") for number in range(4)]
        first = notifier_of(channel, state=tmp_path)
        add(first, calls[:2])
        await first.flush()
        first.add(3, calls[2], PROJECT)  # and then the process dies
        second = notifier_of(channel, state=tmp_path)
        add(second, calls)
        await second.flush()
        assert ids(channel) == [["c0", "c1"], ["c2", "c3"]]

    run(scenario())


def test_a_ledger_that_was_replaced_is_notified_from_its_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel, state=tmp_path)
        add(notifier, [pending_call("a")], start=50)
        await notifier.flush()
        notifier.check_head(PROJECT, 50)
        assert notifier.last_entry(PROJECT) == 50
        again = notifier_of(channel, state=tmp_path)
        again.check_head(PROJECT, 3)
        add(again, [pending_call("b")], start=3)
        await again.flush()
        assert ids(channel) == [["a"], ["b"]]
        assert notifier_of(channel, state=tmp_path).last_entry(PROJECT) == 3

    run(scenario())


def test_a_notifier_that_is_cancelled_while_it_sends_has_not_notified(tmp_path: Path) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        stuck = RecordingChannel(behave=hang)
        notifier = notifier_of(stuck, state=tmp_path)
        add(notifier, [pending_call("a")])
        task = asyncio.create_task(notifier.flush())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert notifier.last_entry(PROJECT) == 0
        stuck.behave = None
        await notifier.flush()
        assert ids(stuck) == [["a"]]

    run(scenario())


def test_a_call_that_is_added_again_while_it_is_sent_is_notified_once() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel)
        channel.behave = lambda: notifier.add(1, pending_call("a"), PROJECT)
        add(notifier, [pending_call("a")])
        await notifier.flush()
        assert await notifier.flush() == []
        assert ids(channel) == [["a"]]

    run(scenario())


def test_a_call_that_is_stored_again_is_notified_once_and_a_changed_one_again() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel)
        notifier.add(1, pending_call("a"), PROJECT)
        notifier.add(2, pending_call("a", digest="d2"), PROJECT)
        await notifier.flush()
        notifier.add(3, pending_call("a", digest="d2"), PROJECT)
        await notifier.flush()
        notifier.add(4, pending_call("a", digest="d3"), PROJECT)
        await notifier.flush()
        assert [message.questions[0].digest for message in channel.messages] == ["d2", "d3"]

    run(scenario())


def test_calls_of_several_projects_share_a_burst_and_are_remembered_apart() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel)
        notifier.add(9, pending_call("a"), "/home/ada/web")
        notifier.add(3, pending_call("a"), "/home/ada/api")
        await notifier.flush()
        assert [question.project for question in channel.messages[0].questions] == ["web", "api"]
        assert (notifier.last_entry("/home/ada/web"), notifier.last_entry("/home/ada/api")) == (9, 3)

    run(scenario())


def test_what_waits_is_bounded() -> None:
    async def scenario() -> None:
        channel = RecordingChannel()
        notifier = notifier_of(channel)
        add(notifier, [pending_call(f"c{number}") for number in range(MAX_WAITING + 5)])
        await notifier.flush()
        assert len(channel.messages[0].questions) == MAX_WAITING

    run(scenario())


def test_a_reason_with_a_secret_is_redacted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise ChannelFailed("it said hunter2-correct-horse")

    async def scenario() -> None:
        redactor = Redactor()
        redactor.add("hook", "hunter2-correct-horse")
        notifier = notifier_of(RecordingChannel(behave=refuse), redactor=redactor)
        add(notifier, [pending_call()])
        await notifier.flush()

    with caplog.at_level(logging.WARNING, "holdfast"):
        run(scenario())
    assert "hunter2" not in caplog.text and "[secret hook]" in caplog.text


# Quiet hours


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2026-03-03T{clock}").timestamp()


@pytest.mark.parametrize(
    ("span", "quiet", "loud"),
    [
        ("22:00-07:00", ["22:00:00", "23:59:59", "00:00:00", "06:59:59"], ["07:00:00", "12:00:00", "21:59:59"]),
        ("12:30-13:15", ["12:30:00", "13:14:59"], ["12:29:59", "13:15:00", "00:00:00"]),
        ("00:00-06:00", ["00:00:00", "05:59:59"], ["06:00:00", "23:59:59"]),
    ],
)
def test_the_start_is_quiet_and_the_end_is_not(span: str, quiet: list[str], loud: list[str]) -> None:
    hours = QuietHours.parse(span)
    assert all(hours.covers(at(clock)) for clock in quiet)
    assert not any(hours.covers(at(clock)) for clock in loud)


@given(st.times().map(lambda time: time.replace(second=0, microsecond=0)), st.times(), st.times())
def test_a_span_and_its_complement_cover_the_day(start: object, end: object, now: object) -> None:
    first, last = f"{start}"[:5], f"{end}"[:5]
    if first == last:
        return
    one, other = QuietHours.parse(f"{first}-{last}"), QuietHours.parse(f"{last}-{first}")
    moment = at(f"{now}"[:8])
    assert one.covers(moment) != other.covers(moment)
