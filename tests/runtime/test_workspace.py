"""Where a runtime works: the defaults of its workspace."""

from __future__ import annotations

from pathlib import Path

from holdfast import Runtime
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger
from tests.runtime.support import open_ledger


def test_the_root_is_resolved_and_is_the_default_working_directory(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to("project")
    workspace = Runtime(workspace=Workspace(root=tmp_path / "link")).workspace
    assert (workspace.root, workspace.cwd) == (tmp_path / "project", str(tmp_path / "project"))
    assert Runtime(root=tmp_path / "link").workspace == workspace


def test_the_state_folder_is_that_of_a_ledger_on_disk(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "state")
    assert Runtime(ledger=ledger).workspace.state == tmp_path / "state"
    assert Runtime(ledger=Ledger.in_memory()).workspace.state is None
    other = Workspace(state=tmp_path / "other")
    assert Runtime(ledger=ledger, workspace=other).workspace.state == tmp_path / "other"


def test_the_folder_of_the_document_is_known(tmp_path: Path) -> None:
    assert Workspace(document=tmp_path / "a.chat").document_dir == tmp_path
    assert Workspace().document_dir is None
