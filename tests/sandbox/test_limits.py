"""What a command may use up."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from holdfast.sandbox import limits
from holdfast.sandbox.limits import Groups, Limits, group_parents, rlimits
from tests.sandbox.places import policy, run, working


@pytest.mark.spec("N2")
def test_limits_become_limits_of_the_process_and_none_of_them_goes_up() -> None:
    found = dict(rlimits(Limits(memory=2**30, file_size=5, open_files=10**9, cpu_seconds=7)))
    assert found[resource.RLIMIT_CORE] == 0
    assert found[resource.RLIMIT_DATA] == 2**30
    assert found[resource.RLIMIT_FSIZE] == 5
    assert found[resource.RLIMIT_CPU] == 7
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert found[resource.RLIMIT_NOFILE] == (10**9 if hard == resource.RLIM_INFINITY else min(10**9, hard))
    assert dict(rlimits(Limits())) == {resource.RLIMIT_CORE: 0}


@pytest.mark.spec("N2")
def test_processes_that_run_already_are_not_held_against_a_command() -> None:
    assert dict(rlimits(Limits(processes=10)))[resource.RLIMIT_NPROC] > 10


@pytest.mark.spec("N2")
@pytest.mark.skipif(not group_parents(), reason="this user may not make control groups")
def test_control_groups_are_made_with_the_limits_and_removed() -> None:
    groups = Groups(Limits(memory=2**28, processes=33))
    said = [file.read_text().strip() for folder in groups.folders for file in Path(folder).glob("pids.max")]
    assert groups.folders
    assert all(Path(folder).is_dir() for folder in groups.folders)
    assert said in ([], ["33"])
    groups()
    assert not any(Path(folder).exists() for folder in groups.folders)
    groups()


@pytest.mark.spec("N2")
def test_without_control_groups_the_limits_of_the_process_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "group_parents", lambda: ())
    assert Groups(Limits(memory=1, processes=1)).folders == ()


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("options", "script"),
    [
        ({"file_size": 4096}, "head -c 10000 /dev/zero > big"),
        ({"open_files": 20}, "exec 30>/dev/null"),
        ({"memory": 64 * 2**20}, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"),
        ({"cpu_seconds": 1}, "while :; do :; done"),
    ],
)
def test_a_command_that_uses_too_much_fails(tmp_path: Path, options: dict[str, int], script: str) -> None:
    assert run(working(), policy(tmp_path), "bash", "-c", "true", cwd=tmp_path).code == 0
    found = run(working(), policy(tmp_path, tmp_path, **options), "bash", "-c", script, cwd=tmp_path)
    assert found.code != 0
    assert not (tmp_path / "big").exists() or (tmp_path / "big").stat().st_size <= 4096
