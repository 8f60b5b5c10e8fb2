"""Records a call that changed files, as a file tool does."""

from __future__ import annotations

import os

from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Result
from holdfast.store.changes import ABSENT, PathChange, PathState, record_changes
from holdfast.store.ledger import Ledger
from tests.cli.command_line import Cli


def change_files(cli: Cli, contents: dict[str, str | None]) -> str:
    """Write (or with None delete) files of the project; return the id of the call that did it."""
    with Ledger.open(cli.ledger_file) as ledger:
        call_id = _begin(cli, ledger)
        for name, content in contents.items():
            path = cli.project / name
            ledger.before_image(call_id, path, path.read_bytes() if path.exists() else None)
            path.unlink() if content is None else path.write_text(content)
            ledger.after_image(call_id, path, None if content is None else content.encode())
        ledger.end_now(call_id, Result(True))
    return call_id


def make_folder(cli: Cli, name: str) -> str:
    """Create a folder in the project, as a command would; return the id of the call that did it."""
    folder = cli.project / name
    folder.mkdir(mode=0o755)
    with Ledger.open(cli.ledger_file) as ledger:
        call_id = _begin(cli, ledger)
        made = PathState(kind="directory", mode=folder.stat().st_mode & 0o7777)
        record_changes(ledger, call_id, str(cli.project), [PathChange(name, ABSENT, made)])
        ledger.end_now(call_id, Result(True))
    return call_id


def _begin(cli: Cli, ledger: Ledger) -> str:
    call_id = f"{os.urandom(4).hex()}-1"
    call = Call(id=call_id, tool="file.write", name_used="file.write", args={}, caller=Caller(), cwd=str(cli.project))
    decision = Decision(Verdict.APPROVE, "urn:test", "It is a test.")
    ledger.begin_now(call, definition_digest="d", mutates=True, decision=decision)
    return call_id
