"""The documents of a project: which there are, what each does next, and which process advances it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.state_file import document_states, lock_owner
from holdfast.contract.errors import CallError, HoldfastError
from holdfast.factory.chat import review_trust
from holdfast.factory.runtime import Project, chats_dir
from holdfast.fs.own_paths import registered_documents
from holdfast.fs.protected_list import DOCUMENT_SUFFIX
from holdfast.json_output import DocumentOutput
from holdfast.runtime.runtime import Runtime
from holdfast.serve.projects import ServedProject


class UnknownDocument(CallError):
    """No document of the project has this name."""


def document_outputs(served: ServedProject, runtime: Runtime) -> list[DocumentOutput]:
    """Read the documents without taking them over from the processes that advance them."""
    return [document_status(path, served, runtime) for path in known_documents(served.project)]


def known_documents(project: Project) -> Iterator[Path]:
    folder = chats_dir(project)
    for document in document_states(folder):
        if document.path.is_file() and (document.calls or lock_owner(document.path, folder) is not None):
            yield document.path


def project_documents(served: ServedProject) -> list[Path]:
    """Return the documents that the project's state, its pending calls or the registry of documents know.

    Of the registry, which is that of the user, only those inside the project.
    """
    states = (document.path for document in document_states(chats_dir(served.project)))
    callers = (pending.call.caller.document for pending in served.ledger.pending())
    inside = (path for path in map(Path, registered_documents()) if path.is_relative_to(served.folder.resolve()))
    found = {Path(os.path.realpath(path)) for path in (*states, *filter(None, callers), *inside)}
    return sorted(path for path in found if path.is_file())


def find_document(served: ServedProject, name: str) -> Path:
    """Return the document of this name: a `.chat` file inside the project, or one that the project knows.

    Raises `UnknownDocument` for any other file; symlinks are resolved first.
    """
    path = Path(os.path.realpath(served.folder / name)) if name.isprintable() else None
    if path is not None and path.is_file():
        inside = path.suffix == DOCUMENT_SUFFIX and path.is_relative_to(served.folder.resolve())
        if inside or path in project_documents(served):
            return path
    raise UnknownDocument(f"There is no document '{name}' in {served.name}. Name a .chat file of the project.")


def document_status(path: Path, served: ServedProject, runtime: Runtime) -> DocumentOutput:
    project = served.project
    model, problems, trusted = project.loaded.config.model.name, list[Diagnostic](), None
    try:
        found = review_trust(path, flags=served.flags or None)
    except HoldfastError as error:
        problems, trusted = [Diagnostic("error", str(error), 1, 1)], False
    else:
        if found is not None:
            model, problems = found.now.config.model.name, list(found.diagnostics)
            trusted = project.trust.is_trusted(found.path, found.digest)
    return DocumentOutput.of(
        DocumentConversation(path, state=chats_dir(project)),
        runtime,
        driver=lock_owner(path, chats_dir(project)),
        model=model,
        trusted=trusted,
        problems=problems,
    )
