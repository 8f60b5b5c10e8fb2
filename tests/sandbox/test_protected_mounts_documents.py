"""Documents while commands run: commands may create new ones, existing ones are read-only, and people's edits stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Literal

import pytest
from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.fs.protected_paths import exact_pattern, protected_reason
from holdfast.runtime.undo.recorder import Recorder
from holdfast.sandbox import protected_mounts
from holdfast.sandbox.launch import Backend, clean_up, cleanup_notes, run_launch, start_launch
from holdfast.sandbox.protected_mounts import choose_mounts, find_protected
from holdfast.sandbox.sandbox import Sandbox
from tests.runtime.undo.support import RecordedProject
from tests.sandbox.sandboxed_commands import bubblewraps, launched, policy, run_with_violations

each = pytest.mark.parametrize("backend", bubblewraps(), ids=lambda one: one.title.partition(" (")[0])


def replaced(path: Path, text: str) -> None:
    """Save atomically, as holdfast and most editors do."""
    new = path.with_name("new")
    new.write_text(text)
    new.rename(path)


def wait_for(path: Path) -> None:
    end = monotonic() + 60
    while not path.exists():
        assert monotonic() < end
        sleep(0.01)


@each
@pytest.mark.spec("N2")
def test_commands_may_create_documents_but_not_change_existing_ones(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "sub").mkdir()
    for old in ("old.chat", "sub/old.chat"):
        (tmp_path / old).write_text("mine")
    script = "for x in . sub; do cd $x; echo new > new.chat; echo x > old.chat; rm old.chat; mv new.chat old.chat; done"
    done, violations = run_with_violations(backend, policy(tmp_path), "bash", "-c", script, cwd=tmp_path)
    assert violations == (), done
    assert [(tmp_path / name).read_text() for name in ("old.chat", "sub/old.chat")] == ["mine", "mine"]
    assert [(tmp_path / name).read_text() for name in ("new.chat", "sub/new.chat")] == ["new\n", "new\n"]


@pytest.mark.spec("N2")
def test_only_plain_document_files_may_be_created(tmp_path: Path) -> None:
    script = (
        "mkdir .idea folder.chat; echo x > .idea/a.chat; echo x > .env.chat; echo x > plans.chat; "
        "ln -s Makefile link.chat; echo x > fine.chat"
    )
    place = replace(policy(tmp_path), protected=("plans*",))
    _done, violations = run_with_violations(bubblewraps()[0], place, "bash", "-ec", script, cwd=tmp_path)
    assert {Path(path).name for path in violations} == {".idea", "folder.chat", ".env.chat", "plans.chat", "link.chat"}
    assert [path.name for path in tmp_path.iterdir()] == ["fine.chat"]


@pytest.mark.spec("N2")
def test_a_document_saved_while_a_command_ran_is_left_alone(tmp_path: Path) -> None:
    """Saving detaches the mount, so the running command can write the new file."""
    document = tmp_path / "a.chat"
    document.write_text("status=pending")
    script = "echo x > a.chat; echo > ready; for n in $(seq 1000); do echo forged > a.chat && break; sleep 0.01; done"
    launch = launched(bubblewraps()[0], policy(tmp_path), ["bash", "-c", script], cwd=tmp_path)
    with start_launch(launch, stderr=subprocess.DEVNULL) as process:
        wait_for(tmp_path / "ready")
        assert document.read_text() == "status=pending"
        replaced(document, "saved by a person")
        process.wait(20)
    left = document.read_text()
    assert left in ("saved by a person", "forged\n")
    assert clean_up(launch) == ()
    assert document.read_text() == left


@pytest.mark.spec("N2")
def test_a_changed_document_that_was_not_mounted_is_left_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED_DOCUMENTS", 0)
    for name in ("a.chat", "b.chat", "gone.chat"):
        (tmp_path / name).write_text("old")
    launch = launched(bubblewraps()[0], policy(tmp_path), ["rm", "gone.chat"], cwd=tmp_path)
    assert run_launch(replace(launch, cleanup=()), 30)[0] == 0
    replaced(tmp_path / "a.chat", "by holdfast")
    (tmp_path / "b.chat").write_text("by a person")
    assert clean_up(launch) == (str(tmp_path / "gone.chat"),)
    assert (tmp_path / "a.chat").read_text() == "by holdfast"
    assert (tmp_path / "b.chat").read_text() == "by a person"
    assert (tmp_path / "gone.chat").read_text() == "old"
    assert [note.partition(" ")[0] for note in cleanup_notes(launch)] == [
        str(tmp_path / "a.chat"),
        str(tmp_path / "b.chat"),
    ]


@pytest.mark.spec("N2")
def test_a_document_saved_after_its_folder_was_moved_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.chat").write_text("old")
    launch = launched(bubblewraps()[0], policy(tmp_path), ["sh", "-c", "mv sub away; mkdir sub"], cwd=tmp_path)
    assert run_launch(replace(launch, cleanup=()), 30)[0] == 0
    (tmp_path / "sub" / "a.chat").write_text("saved")
    clean_up(launch)
    assert (tmp_path / "sub" / "a.chat").read_text() == "saved"


@pytest.mark.spec("N2")
def test_the_most_recently_changed_documents_are_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED_DOCUMENTS", 2)
    for name in ("z-driven.md", "a-old.chat", "b-new.chat", "Makefile"):
        (tmp_path / name).write_text(name)
    extra = (exact_pattern(tmp_path / "z-driven.md"),)
    found = [replace(item, changed=int("new" in item.path)) for item in find_protected(tmp_path, extra)]
    mounted = {Path(item.path).name for item in choose_mounts(found, extra) if item.mounted}
    assert mounted == {"z-driven.md", "b-new.chat", "Makefile"}


LEFT = """
import os, sys
from pathlib import Path
from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.sandbox.sandbox import Sandbox
root, state = map(Path, sys.argv[1:])
Sandbox(SandboxConfig(), root=root, state=state, cwd=root).launch(Command(argv=("true",), cwd=root))
os._exit(0)
"""


@pytest.mark.spec("N2")
def test_after_a_crash_new_documents_stay_and_other_new_files_are_quarantined(
    tmp_path: Path,
) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    (root / "sub").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", LEFT, root, state], timeout=30, check=True)
    (root / "mine.chat").write_text("my words")
    (root / "sub" / ".npmrc").write_text("mine too")
    launch = Sandbox(SandboxConfig(), root=root, state=state, cwd=root).launch(Command(argv=("true",), cwd=root))
    assert run_launch(launch, 30)[0] == 0
    assert (root / "mine.chat").read_text() == "my words"
    (note,) = cleanup_notes(launch)
    assert str(root / "sub" / ".npmrc") in note
    kept = Path(note.rpartition(" ")[2].rstrip("."))
    assert kept.is_relative_to(state / "blocked") and kept.read_text() == "mine too"


@pytest.mark.parametrize("mechanism", ["auto", "copy"])
@pytest.mark.spec("N2", "X11")
def test_recorded_commands_may_create_documents_but_not_change_existing_ones(
    tmp_path: Path, mechanism: Literal["auto", "copy"]
) -> None:
    place = RecordedProject(tmp_path)
    document = place.root / "sub" / "old.chat"
    document.parent.mkdir()
    document.write_text("old")
    config = SandboxConfig(undo=mechanism)
    sandbox = Sandbox(config, root=place.root, state=place.state, cwd=place.root)
    recording = Recorder(place.ledger, sandbox, config, place.state).begin(place.begin())
    assert recording is not None
    script = "echo new > sub/new.chat; echo x > sub/old.chat; true"
    launch = sandbox.launch(Command(argv=("bash", "-c", script), cwd=place.root), overlays=recording.overlays)
    assert run_launch(launch, 30)[0] == 0
    replaced(document, "saved meanwhile")
    changes = recording.finish()
    assert document.read_text() == "saved meanwhile"
    assert (document.with_name("new.chat")).read_text() == "new\n"
    assert [Path(change.path).name for change in changes.changes] == ["new.chat"]
    assert list(changes.violations) == ([str(document)] if recording.overlays else [])
    place.ledger.close()


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    "name",
    ["plain.md", "a*b.md", "a?b.md", "[*]", "a[b].md", "a[[]*", "\uff0a.md", "\uff3b\uff3b\uff3d", "ä Ö.md", "x\ny"],
)
def test_a_path_with_any_characters_is_protected_exactly(tmp_path: Path, name: str) -> None:
    extra = (exact_pattern(tmp_path / name),)
    assert protected_reason(tmp_path / name, root=tmp_path, extra=extra, for_commands=True) is not None
    for other in ("aXb.md", "aXYb.md", "[X]", "ab.md", "other.md", f"{name}x", f"sub/{name}"):
        assert protected_reason(tmp_path / other, root=tmp_path, extra=extra, for_commands=True) is None, other


@each
@pytest.mark.spec("N2")
def test_a_driven_document_of_any_name_is_read_only_and_its_link_is_restored(tmp_path: Path, backend: Backend) -> None:
    document, link = tmp_path / "a*[1].md", tmp_path / "link.md"
    document.write_text("mine")
    link.symlink_to(document.name)
    place = replace(policy(tmp_path), protected=(exact_pattern(link), exact_pattern(document)))
    script = "echo x > 'a*[1].md'; rm 'a*[1].md'; echo x > link.md; rm link.md; echo x > link.md; echo x > 'aX[1].md'"
    _done, violations = run_with_violations(backend, place, "bash", "-c", script, cwd=tmp_path)
    assert document.read_text() == "mine"
    assert link.readlink() == Path(document.name)
    assert violations == (str(link),)
    assert (tmp_path / "aX[1].md").exists()
