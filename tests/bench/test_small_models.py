"""A sample of what a real small model replied, played again: the tasks are still done with these replies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from bench.small_models import TASKS, PlayedModel, Run, StoredReply, Way, run_task

_RECORDED = Path(__file__).with_name("recorded_replies")
_SAMPLE = sorted(path.name.removesuffix(".json") for path in _RECORDED.glob("*.json"))


def played(name: str) -> tuple[Run, int]:
    """Play the recorded replies of a task, and return the run and the number of replies."""
    task_id, _, way = name.rpartition(".")
    task = next(task for task in TASKS["dev"] if task.id == task_id)
    replies = msgspec.json.decode((_RECORDED / f"{name}.json").read_bytes(), type=list[StoredReply])
    work = run_task(task, "dev", cast(Way, way), {"enabled": True}, PlayedModel(replies))
    return asyncio.run(asyncio.wait_for(work, 120)), len(replies)


def test_the_sample_has_each_way_and_each_kind_of_task() -> None:
    ids, ways = zip(*(name.rsplit(".", 1) for name in _SAMPLE), strict=True)
    kinds = {task.kind for task in TASKS["dev"] if task.id in ids}
    assert (set(ways), kinds) == (
        {"native", "text", "constrained"},
        {"definition", "usage", "configuration", "edit", "git"},
    )


@pytest.mark.parametrize("name", _SAMPLE)
@pytest.mark.spec("M4")
def test_a_small_model_does_its_task_with_the_guard_rails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run, replies = played(name)
    assert (run.wrong, run.outcome, run.malformed, run.replies) == ("", "done", 0, replies)


def test_a_wrong_answer_is_counted_as_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    task = next(task for task in TASKS["dev"] if task.kind == "definition")
    told = msgspec.convert(
        {
            "parts": [{"type": "text", "text": '{"answer": "It is in README.md."}'}],
            "ended": {"event": "ended", "stop": "end", "usage": {}},
            "seconds": 0.1,
        },
        StoredReply,
    )
    run = asyncio.run(run_task(task, "dev", "constrained", {"enabled": True}, PlayedModel([told])))
    assert run.wrong and run.outcome == "done"
