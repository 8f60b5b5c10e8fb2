"""The documents of a project that have open calls or are being advanced, and what each does next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.state_file import document_states, lock_owner
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import review_trust
from holdfast.factory.runtime import Project, chats_dir
from holdfast.json_output import DocumentOutput
from holdfast.runtime.runtime import Runtime
from holdfast.serve.projects import ServedProject


def document_outputs(served: ServedProject, runtime: Runtime) -> list[DocumentOutput]:
    """Read the documents without taking them over from the processes that advance them."""
    return [_status(path, served, runtime) for path in known_documents(served.project)]


def known_documents(project: Project) -> Iterator[Path]:
    folder = chats_dir(project)
    for document in document_states(folder):
        if document.path.is_file() and (document.calls or lock_owner(document.path, folder) is not None):
            yield document.path


def _status(path: Path, served: ServedProject, runtime: Runtime) -> DocumentOutput:
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
