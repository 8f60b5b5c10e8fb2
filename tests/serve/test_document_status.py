"""The documents of a project are those inside it and those that it knows; no other file is one."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from holdfast.fs.own_paths import register_document
from holdfast.serve.document_status import UnknownDocument, find_document, project_documents
from holdfast.serve.projects import ServedProject
from tests.serve.daemon_client import make_project
from tests.serve.served import Daemon


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[ServedProject]:
    served = ServedProject(make_project(tmp_path, monkeypatch), {})
    (served.folder / "plan.chat").write_text("@You:\nhello\n")
    (tmp_path / "outside.chat").write_text("@You:\nhello\n")
    yield served
    served.ledger.close()


def test_the_registry_of_the_user_adds_only_documents_inside_the_project(
    project: ServedProject, tmp_path: Path
) -> None:
    assert project_documents(project) == []
    for path in (project.folder / "plan.chat", tmp_path / "outside.chat", project.folder / "gone.chat"):
        register_document(path)
    assert project_documents(project) == [project.folder / "plan.chat"]


@pytest.mark.parametrize("name", ["plan.chat", "./plan.chat", "sub/../plan.chat"])
def test_a_document_is_found_by_any_spelling_inside_the_project(project: ServedProject, name: str) -> None:
    (project.folder / "sub").mkdir()
    assert find_document(project, name) == project.folder / "plan.chat"
    assert find_document(project, str(project.folder / name)) == project.folder / "plan.chat"


@pytest.mark.parametrize("name", ["", ".", "../outside.chat", "link.chat", "x.chat", "/etc/passwd", "plan.chat\0"])
def test_no_other_file_is_found(project: ServedProject, tmp_path: Path, name: str) -> None:
    (project.folder / "link.chat").symlink_to(tmp_path / "outside.chat")
    with pytest.raises(UnknownDocument):
        find_document(project, name)


@pytest.mark.spec("E3a")
def test_the_daemon_lists_documents_as_the_command_line_does(served: Daemon) -> None:
    served.cli.run("chat", "new", "a.chat", "-m", 'write "x" to x.txt')
    served.cli.run("chat", "a.chat")
    (here,) = served.local().get("/api/documents").json()["documents"]
    (there,) = served.cli.run("chat", "status", "--json").lines
    assert here == there
