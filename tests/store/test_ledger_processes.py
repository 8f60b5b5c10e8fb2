"""Several processes that share one ledger."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.contract.enums import State
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, YES, make_call, make_pending


class Child:
    """A child process that is ready and waits for a signal to act."""

    def __init__(self, command: str, ledger: Ledger, *arguments: str) -> None:
        words = [sys.executable, "-m", "tests.store.child_process", command, str(ledger.path), *arguments]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


def race(children: list[Child]) -> list[str]:
    for child in children:
        assert child.said() == "ready"
    for child in children:
        child.go()
    return sorted(child.said() for child in children)


@pytest.mark.spec("A12", "X10")
def test_exactly_one_of_eight_processes_can_use_an_approval(ledger: Ledger) -> None:
    pending_call = make_pending()
    asyncio.run(ledger.add_pending(pending_call))
    ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
    with ExitStack() as stack:
        children = [stack.enter_context(Child("consume", ledger, pending_call.call.id)) for _ in range(8)]
        assert race(children) == ["lost"] * 7 + ["won"]
        for child in children:
            child.process.wait(30)
    record = ledger.call(pending_call.call.id)
    assert record.state is State.DONE
    assert [entry.kind for entry in ledger.entries(call=pending_call.call.id)] == [
        "pending",
        "answered",
        "intent",
        "ended",
    ]
    assert ledger.verify().ok


@pytest.mark.spec("A12")
def test_exactly_one_of_eight_processes_can_use_a_grant_for_once(ledger: Ledger) -> None:
    grant = ledger.grants.add(tool="file.write", pattern={}, scope="once", by="ada")
    with ExitStack() as stack:
        children = [stack.enter_context(Child("consume_grant", ledger, grant.id)) for _ in range(8)]
        assert race(children) == ["lost"] * 7 + ["won"]
    assert ledger.grants.list() == []
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_concurrent_processes_write_one_valid_hash_chain(ledger: Ledger) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(Child("write", ledger, name)) for name in "abc"]
        for child in children:
            assert child.said() == "ready"
        for child in children:
            child.go()
        for number in range(100):
            ledger.record_call_now(make_call(f"me-{number}"), APPROVED, DONE)
        assert [child.said() for child in children] == ["written"] * 3
    expected = {f"{name}-{number}" for name in ("a", "b", "c", "me") for number in range(100)}
    assert sorted(entry.call for entry in ledger.entries()) == sorted(expected)
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_recovery_marks_calls_of_a_killed_process_unknown_and_leaves_live_ones_alone(ledger: Ledger) -> None:
    with Child("run", ledger, "killed") as killed, Child("run", ledger, "living") as living:
        assert (killed.said(), living.said()) == ("ready", "ready")
        assert ledger.recover() == []
        killed.process.kill()
        killed.process.wait(30)
        assert ledger.recover() == ["killed"]
        assert ledger.call("killed").state is State.UNKNOWN
        assert ledger.call("living").state is State.RUNNING
    assert ledger.end_now("killed", DONE) is False
