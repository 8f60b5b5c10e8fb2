"""A search never reads denied files, leaves the project, hangs, or runs a program it happens to find."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Config, Result, State
from holdfast.config.config import SandboxConfig
from holdfast.contract.context import Context
from holdfast.tools.search import engines, search
from holdfast.tools.search.engines import PlainScan, SearchHits, find_ripgrep
from holdfast.tools.search.plain_scan import Scan, line_matcher
from holdfast.tools.search.ranking import read_hits
from holdfast.tools.search.scope import Query, SearchScope
from holdfast.tools.search.search import CODE_SEARCH, FILE_FIND
from tests.runtime.support import run, runtime_in
from tests.soak import rounds
from tests.tools.search.project_trees import write_tree

ENGINES = ["plain", *(["ripgrep"] if find_ripgrep(Path("/nowhere")) else [])]


def _nowhere(root: Path) -> None:
    return None


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    return request.param


def _search(folder: Path, query: str, config: Config | None = None, **args: Any) -> Result:
    return run(runtime_in(folder, CODE_SEARCH, config=config).call("code.search", {"query": query, **args}))


@pytest.mark.spec("B2", "N2")
@pytest.mark.usefixtures("engine")
def test_denied_files_are_neither_shown_nor_counted(tmp_path: Path) -> None:
    write_tree(tmp_path / "project", {"a.py": "needle\n", "secret/key.py": "needle\n", "token.py": "needle\n"})
    denied = tuple(str(tmp_path / "project" / name) for name in ("secret", "token.py"))
    config = Config(sandbox=SandboxConfig(read_deny=denied))
    assert _search(tmp_path, "needle", config=config).output.startswith("a.py (1 match)\n  1: needle")
    assert "needle" not in _search(tmp_path, "needle", config=config, path="secret").output
    found = run(runtime_in(tmp_path, FILE_FIND, config=config).call("file.find", {"pattern": "*.py"}))
    assert found.output.startswith("a.py") and "key.py" not in found.output and "token.py" not in found.output


@pytest.mark.spec("B2", "N2")
def test_without_a_sandbox_denied_files_are_filtered_out(tmp_path: Path) -> None:
    class Sandbox:
        def is_path_readable(self, path: Path) -> bool:
            return path.name != "token.py"

    class Surroundings:
        sandbox = Sandbox()

    scope = SearchScope(root=tmp_path, below="", is_file=False)
    found = SearchHits(hits=[("a.py", 1), ("sub/token.py", 3)], engine=PlainScan(scope, cast(Context, Surroundings())))
    assert search.readable_hits(found, None, scope, cast(Context, Surroundings())) == [("a.py", 1)]


@pytest.mark.spec("B2")
@pytest.mark.usefixtures("engine")
def test_unreadable_files_are_counted_and_reported(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "project", {"a.py": "needle\n", "b.py": "needle\n", "sub/c.py": "needle\n"})
    os.mkfifo(root / "pipe.py")
    for name in ("b.py", "sub"):
        (root / name).chmod(0)
    try:
        result = _search(tmp_path, "needle")
        if "b.py" in result.output:
            pytest.skip("nothing is unreadable here: commands run with every right")
        assert result.output == "a.py (1 match)\n  1: needle\n[2 files could not be read]"
        assert _search(tmp_path, "none").output == "No matches found.\n[2 files could not be read]"
    finally:
        (root / "sub").chmod(0o755)


@pytest.mark.spec("B2")
def test_a_catastrophically_backtracking_pattern_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    monkeypatch.setattr(engines, "_TIMEOUT_SHARE", 0.1)
    write_tree(tmp_path / "project", {"a.py": "a" * 60 + "!\n"})
    slow = runtime_in(tmp_path, CODE_SEARCH.with_(timeout=40.0))
    result = run(slow.call("code.search", {"query": "(a+)+$", "regex": True}), 60)
    assert "took too long" in (result.error or "")
    assert not _scanning()


@pytest.mark.spec("B2", "X3")
def test_a_cancelled_search_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    write_tree(tmp_path / "project", {"a.py": "a" * 60 + "!\n"})

    async def cancel() -> Result:
        runtime = runtime_in(tmp_path, CODE_SEARCH)
        async with runtime:
            with runtime.subscribe() as events:
                task = asyncio.create_task(runtime.call("code.search", {"query": "(a+)+$", "regex": True}))
                call_id = (await anext(aiter(events))).call_id
            await asyncio.wait_for(asyncio.to_thread(_until_scanning), 50)
            assert runtime.cancel(call_id)
            return await task

    assert run(cancel(), 80).state is State.CANCELLED
    assert not _scanning()


def _until_scanning() -> None:
    deadline = time.monotonic() + 45
    while not _scanning() and time.monotonic() < deadline:
        threading.Event().wait(0.01)


def _scanning() -> bool:
    """Whether a scan process started by this one is running."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
                parent = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if b"tools/search/plain_scan.py" in words and parent[0] != "Z" and _is_below(int(entry.name), os.getpid()):
                return True
    return False


def _is_below(process: int, ancestor: int) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@pytest.mark.spec("B2", "N5")
def test_a_folder_swapped_for_a_symlink_never_leads_outside(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "root", {"sub/a.py": "needle inside\n", "sub/.gitignore": "b.py\n"})
    write_tree(tmp_path / "outside", {"a.py": "needle outside\n", "only.py": "needle outside\n"})
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "sub").rename(root / "kept")
            (root / "sub").symlink_to(tmp_path / "outside")
            (root / "sub").unlink()
            (root / "kept").rename(root / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    walked: set[str] = set()
    counted: set[str] = set()
    try:
        for _ in range(rounds(300, 2000)):
            scope = SearchScope(root=root, below="", is_file=False)
            for file in read_hits([("sub/a.py", 1)], Query("needle"), scope, per_file=3):
                seen.update(line.text for line in file.lines)
            plain = Scan(str(root))
            walked.update(plain.walk(""))
            counted.update(path for path, _, _ in plain.count_matches(plain.walk(""), line_matcher("outside"), 0))
            plain.close()
    finally:
        stop.set()
        swapping.join(60)
    assert seen <= {"needle inside"}
    assert walked <= {"sub/a.py", "kept/a.py"}
    assert counted == set()


@pytest.mark.spec("B2")
def test_a_catastrophically_backtracking_ignore_file_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    write_tree(tmp_path / "project", {".gitignore": "*a" * 40 + "b\n", "a" * 200: "needle\n"})
    monkeypatch.setattr(engines, "_TIMEOUT_SHARE", 0.1)
    slow = runtime_in(tmp_path, CODE_SEARCH.with_(timeout=40.0))
    result = run(slow.call("code.search", {"query": "needle"}), 60)
    assert "took too long" in (result.error or "")
    assert not _scanning()
