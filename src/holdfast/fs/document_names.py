"""Names of what holdfast writes beside a document: its attachments and its conflict copies."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

ATTACHMENTS_SUFFIX: Final = ".files"


def attachments_folder(document: str) -> str:
    """Return the name of the folder with the attachments of a document."""
    return f"{document}{ATTACHMENTS_SUFFIX}"


def conflict_copy(document: str, number: int) -> str:
    """Return the name of a version of a document that could not be merged."""
    name = PurePath(document)
    return f"{name.stem}.conflict-{number}{name.suffix}"


def is_conflict_copy(name: str, document: str) -> bool:
    """Whether a name is that of a conflict copy of the document."""
    found = re.search(r"\.conflict-([0-9]{1,5})(?:\.[^.]*)?\Z", name)
    return found is not None and name == conflict_copy(document, int(found[1]))
