"""An approved call that is resumed twice at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.contract.call import Answer
from holdfast.factory.runtime import build_runtime, load_project
from tests.soak import rounds


@pytest.mark.spec("A13a")
def test_a_call_that_is_resumed_twice_runs_once_and_keeps_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    (tmp_path / "config" / "holdfast").mkdir(parents=True)
    (tmp_path / "config" / "holdfast" / "config.toml").write_text("[approval]\nauto_approve = []\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)

    async def check() -> None:
        async with build_runtime(load_project(tmp_path / "project"), nobody="pending") as runtime:
            for number in range(rounds(5, 200)):
                args = {"path": f"{number}.txt", "content": "hello"}
                pending = runtime.pending.get((await runtime.call("file.write", args)).call_id)
                assert pending is not None
                answer = Answer(kind="approve", by="ann")
                answered = await runtime.lifecycle.answer(pending.call.id, answer, pending.digest)
                results = await asyncio.gather(*(runtime.lifecycle.resume(answered) for _ in range(3)))
                assert [result is not None and result.success for result in results] == [True] * 3, results
                assert runtime.pending.ledger.record(pending.call.id).state == "done"

    asyncio.run(check())
