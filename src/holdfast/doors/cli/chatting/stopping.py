"""`holdfast chat cancel`: tells the process that drives a document to stop, as Ctrl-C in its terminal would."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.doors.cli import screen
from holdfast.doors.cli.chatting.documents import find_document, place
from holdfast.doors.cli.chatting.finding import known_documents, setting_of
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.outputs import Stop
from holdfast.doors.cli.place import Flags

if TYPE_CHECKING:
    from holdfast.contract.call import Owner


def cancel_driver(flags: Flags, file: str | None, *, as_json: bool) -> int:
    path, owner = _driven(flags, file)
    name = "any document of this project" if path is None else place(path)
    if owner is not None:
        _stop(owner, name)
    if as_json:
        pid = None if owner is None else owner.pid
        screen.put_json(Stop(path=None if path is None else str(path), pid=pid, told=pid is not None))
    elif owner is None:
        screen.note(f"Nobody is advancing {name} just now.")
    else:
        screen.note(f"Process {owner.pid} was told to stop advancing {name}.")
    return 0


def driver_of(path: Path, flags: Flags) -> Owner | None:
    """The process that drives a document, if it is the very one that took it."""
    from holdfast.assemble.chat import chats_of
    from holdfast.chat.remembering import driver

    return driver(path, chats_of(setting_of(path, flags)))


def _driven(flags: Flags, file: str | None) -> tuple[Path | None, Owner | None]:
    if file is not None:
        path = find_document(file).resolve()
        return path, driver_of(path, flags)
    found = [
        (path, owner)
        for path in known_documents(setting_of(None, flags))
        if (owner := driver_of(path, flags)) is not None
    ]
    if not found:
        return None, None
    if len(found) > 1:
        names = ", ".join(place(path) for path, _ in found)
        raise UsageProblem(f"Several documents are being advanced: {names}; name one.")
    return found[0]


def _stop(owner: Owner, name: str) -> None:
    """The owner was alive a moment ago, with the start time it had when it took the document."""
    try:
        os.kill(owner.pid, signal.SIGINT)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UsageProblem(f"Process {owner.pid} advances {name} as another user; stop it there.") from None
