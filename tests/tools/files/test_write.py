"""`file.write`: proposes a diff and writes atomically, only over what was seen."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Risk, Runtime, State
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.contract.enums import Failure
from holdfast.tools.files.file_state import MAX_BYTES, MAX_DIFF_BYTES, FileChanged, read_state, replace_file
from holdfast.tools.files.write import FILE_WRITE
from tests.runtime.support import run, runtime_in
from tests.store.calls import before_images
from tests.tools.files.fake_context import FakeContext, propose, use

ASKED = Config(approval=ApprovalConfig(auto_approve=()))


def _keep_nothing(path: Path, content: bytes | None, mode: int | None) -> None:
    pass


def _write(folder: Path, path: str, content: str, config: Config | None = None, **args: Any) -> Result:
    runtime = runtime_in(folder, FILE_WRITE, config=config)
    return run(runtime.call("file.write", {"path": path, "content": content, **args}))


def _park(folder: Path, path: str, content: str, config: Config = ASKED) -> Runtime:
    runtime = runtime_in(folder, FILE_WRITE, config=config, nobody="pending")
    assert run(runtime.call("write", {"path": path, "content": content})).state is State.PENDING
    return runtime


@pytest.mark.spec("T5", "T6", "A6")
def test_it_creates_and_overwrites_and_reports_which(tmp_path: Path) -> None:
    created = _write(tmp_path, "notes.txt", "one\n")
    assert created.output == "Successfully wrote 4 bytes to notes.txt (created)."
    none: dict[str, Any] = {"places": [], "more_lines": 0, "more_places": 0, "final_newline": True, "withheld": None}
    assert created.structured == {"path": "notes.txt", "bytes": 4, "outcome": "created", "changes": none}
    target = tmp_path / "project" / "notes.txt"
    target.chmod(0o640)
    again = _write(tmp_path, "notes.txt", "two\n")
    assert again.output == "Successfully wrote 4 bytes to notes.txt (overwritten).\n> 1 | two"
    changes = {**none, "places": [[{"line": 1, "text": "two", "changed": True, "removed": 0}]]}
    assert again.structured == {"path": "notes.txt", "bytes": 4, "outcome": "overwritten", "changes": changes}
    assert target.read_text() == "two\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    same = _write(tmp_path, "notes.txt", "two\n")
    assert same.output == "notes.txt already has exactly this content."
    assert same.structured == {"path": "notes.txt", "bytes": 4, "outcome": "unchanged", "changes": none}
    assert [item.name for item in target.parent.iterdir()] == ["notes.txt"]
    assert _write(tmp_path, "one.txt", "1").output == "Successfully wrote 1 byte to one.txt (created)."


@pytest.mark.spec("T5", "T6", "O2")
def test_the_proposal_shows_the_diff_and_the_risk_before_anything_is_written(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old\nsame\n")
    runtime = _park(tmp_path, "a.txt", "new\nsame\n")
    held = runtime.pending.list()[0]
    assert held.proposal is not None
    assert (held.proposal.summary, held.proposal.risk) == ("overwrite a.txt (2 lines)", Risk.HIGH)
    assert "-old\n+new\n same" in held.proposal.preview
    assert (project / "a.txt").read_text() == "old\nsame\n"
    created = _park(tmp_path, "b.txt", "x").pending.list()[-1]
    assert created.proposal is not None
    assert (created.proposal.summary, created.proposal.risk) == ("create b.txt (1 line)", Risk.MEDIUM)


@pytest.mark.parametrize("change", ["content", "replaced", "deleted", "appeared", "mode"])
@pytest.mark.spec("T5", "A12")
def test_a_file_that_changed_since_the_proposal_is_not_written(tmp_path: Path, change: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    target = project / "a.txt"
    if change != "appeared":
        target.write_text("seen\n")
    runtime = _park(tmp_path, "a.txt", "mine\n")
    held = runtime.pending.list()[0]
    if change in ("content", "appeared"):
        target.write_text("theirs\n")
    elif change == "replaced":
        (project / "other").write_text("seen\n")
        (project / "other").replace(target)
    elif change == "deleted":
        target.unlink()
    else:
        target.chmod(0o755)
    result = run(runtime.approve(held.call.id))
    assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    assert not target.exists() or target.read_text() != "mine\n"
    assert run(runtime.approve(held.call.id)).success
    assert target.read_text() == "mine\n"


@pytest.mark.spec("T5")
def test_the_file_is_checked_again_when_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("seen")
    seen = read_state(tmp_path, target).digest
    target.write_text("theirs")
    with pytest.raises(FileChanged):
        replace_file(tmp_path, target, b"mine", seen=seen, keep_before=_keep_nothing, keep_after=_keep_nothing)
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.spec("T5")
def test_a_change_before_or_during_the_write_is_neither_lost_nor_recorded(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("seen")
    kept: list[bytes | None] = []

    def keep(path: Path, content: bytes | None, mode: int | None) -> None:
        kept.append(content)
        target.write_text("theirs")

    seen = read_state(tmp_path, target).digest
    for before in ([b"seen", b"mine"], []):
        kept.clear()
        with pytest.raises(FileChanged):
            replace_file(tmp_path, target, b"mine", seen=seen, keep_before=keep, keep_after=keep)
        assert (kept, target.read_text()) == (before, "theirs")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../out.txt", ".."),
        ("sub/../a.txt", ".."),
        ("/etc/passwd", "outside"),
        ("link/x.txt", "link"),
        ("file-link", "link"),
        ("pipe", "not a regular file"),
        ("missing/a.txt", "does not exist"),
        ("a\0b", ""),
        ("x" * 5000, ""),
        ("folder", ""),
    ],
)
@pytest.mark.spec("N5", "B1")
def test_paths_outside_the_project_are_refused(tmp_path: Path, path: str, words: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside").mkdir()
    (project / "folder").mkdir()
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "file-link").symlink_to(tmp_path / "outside" / "x.txt")
    os.mkfifo(project / "pipe")
    result = _write(tmp_path, path, "content")
    assert not result.success
    assert words in (result.error or "")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.spec("B1")
def test_parents_are_created_only_on_request(tmp_path: Path) -> None:
    assert not _write(tmp_path, "deep/er/a.txt", "x").success
    assert not (tmp_path / "project" / "deep").exists()
    assert _write(tmp_path, "deep/er/a.txt", "x", create_parents=True).success
    assert (tmp_path / "project" / "deep" / "er" / "a.txt").read_text() == "x"


@pytest.mark.spec("A6", "A18")
def test_protected_paths_need_approval_despite_auto_approval(tmp_path: Path) -> None:
    everything = Config(approval=ApprovalConfig(auto_approve=("$default", "file.*"), require_approval=False))
    for path in ("holdfast.toml", ".git/hooks/pre-commit", ".GIT/config", "Makefile", ".envrc", "talk.chat"):
        result = _write(tmp_path, path, "x", config=everything, create_parents=True)
        assert result.failure is Failure.NOBODY_TO_ASK, path
        assert "protected" in (result.error or "")
    assert _write(tmp_path, "plain.txt", "x", config=everything).success


@pytest.mark.spec("A6", "A18")
def test_a_lower_max_risk_asks_about_overwriting_but_not_about_creating(tmp_path: Path) -> None:
    careful = Config(approval=ApprovalConfig(max_risk=Risk.MEDIUM))
    assert _write(tmp_path, "a.txt", "one", config=careful).success
    again = _write(tmp_path, "a.txt", "two", config=careful)
    assert again.failure is Failure.NOBODY_TO_ASK


@pytest.mark.spec("T7")
def test_read_only_paths_of_the_policy_are_not_written(tmp_path: Path) -> None:
    closed = Config(sandbox=SandboxConfig(writable=()))
    assert "not writable" in (_write(tmp_path, "a.txt", "x", config=closed).error or "")


@pytest.mark.spec("X10")
def test_the_before_image_is_in_the_ledger(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"before\x00\xff")
    runtime = runtime_in(tmp_path, FILE_WRITE)
    result = run(runtime.call("file.write", {"path": "a.txt", "content": "after"}))
    assert runtime.ledger is not None
    (image,) = before_images(runtime.ledger, result.call_id)
    assert image.blob is not None
    assert runtime.ledger.blobs.read(image.blob) == b"before\x00\xff"


@pytest.mark.spec("X10")
def test_both_images_are_saved_before_the_rename(tmp_path: Path) -> None:
    ctx = FakeContext(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"before")
    (tmp_path / "a.txt").chmod(0o640)
    assert use(FILE_WRITE, ctx, path="a.txt", content="after").success
    assert use(FILE_WRITE, ctx, path="b.txt", content="new").success
    made = stat.S_IMODE((tmp_path / "b.txt").stat().st_mode)
    assert [(kind, path.name, content, mode) for kind, path, content, mode in ctx.kept] == [
        ("before", "a.txt", b"before", 0o640),
        ("after", "a.txt", b"after", 0o640),
        ("before", "b.txt", None, None),
        ("after", "b.txt", b"new", made),
    ]

    def refuse(path: Path, content: bytes | None, mode: int | None) -> None:
        raise RuntimeError("the ledger is full")

    seen = read_state(tmp_path, tmp_path / "a.txt").digest
    with pytest.raises(RuntimeError):
        replace_file(tmp_path, tmp_path / "a.txt", b"no", seen=seen, keep_before=_keep_nothing, keep_after=refuse)
    assert (tmp_path / "a.txt").read_bytes() == b"after"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.spec("B1")
def test_a_hard_link_outside_keeps_its_content(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("theirs")
    (root / "a.txt").hardlink_to(tmp_path / "outside")
    assert use(FILE_WRITE, FakeContext(root), path="a.txt", content="mine").success
    assert (tmp_path / "outside").read_text() == "theirs"
    assert (root / "a.txt").read_text() == "mine"


@pytest.mark.spec("B1")
def test_owner_mode_and_attributes_are_kept_where_possible(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    if os.geteuid() == 0:
        os.chown(target, 65534, 65534)
    target.chmod(0o4751)
    os.setxattr(target, "user.note", b"kept")
    owner = (target.stat().st_uid, target.stat().st_gid)
    assert use(FILE_WRITE, FakeContext(tmp_path), path="a.txt", content="new").success
    assert (target.stat().st_uid, target.stat().st_gid) == owner
    assert stat.S_IMODE(target.stat().st_mode) == 0o751, "new content is not setuid"
    assert os.getxattr(target, "user.note") == b"kept"


@pytest.mark.spec("N3")
def test_unreadable_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    result = propose(FILE_WRITE, FakeContext(tmp_path, read=tmp_path / "secret"), path="secret", content="x")
    assert isinstance(result, Result)
    assert result.error == "Sandbox: 'secret' may not be read (sandbox.read_deny)."


@pytest.mark.spec("B1")
def test_a_file_too_large_for_undo_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10 * 1024**3)
    result = propose(FILE_WRITE, FakeContext(tmp_path), path="huge", content="x")
    assert isinstance(result, Result)
    assert result.error == f"huge is 10.0GB; only files up to {MAX_BYTES // 1024**2}.0MB can be changed."


@pytest.mark.spec("O2")
def test_a_change_too_large_for_a_diff_is_summarised(tmp_path: Path) -> None:
    proposed = propose(FILE_WRITE, FakeContext(tmp_path), path="a.txt", content="x" * (MAX_DIFF_BYTES + 1))
    assert not isinstance(proposed, Result)
    assert proposed.preview == "[a.txt: nothing becomes 2.0MB, too large to show line by line]"
