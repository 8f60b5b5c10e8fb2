"""The digest an approval is bound to. Change any part and the approval is for something else; which, is said here."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.contract.call import Call, HeldCall, NamedFile, Precondition, Proposal
from holdfast.contract.tool import Tool
from holdfast.contract.values import digest_of
from holdfast.store.changes import to_text


def approval_digest(
    tool: Tool, call: Call, sandbox_profile: str, proposal: Proposal | None, files: tuple[NamedFile, ...] = ()
) -> str:
    """Over definition, canonical arguments, working directory, sandbox profile, what was proposed, and the content of
    the files a command names."""
    shown = None
    if proposal is not None:
        shown = [
            proposal.summary,
            proposal.risk,
            proposal.payload,
            [[item.kind, item.subject, item.value] for item in proposal.preconditions],
        ]
    folder = to_text(os.path.realpath(call.cwd))
    named = [[file.path, file.digest] for file in files]
    return digest_of([tool.name, tool.digest, call.args, folder, sandbox_profile, shown, named])


def what_changed(before: HeldCall, now: HeldCall) -> str:
    """In words, what differs between two digests of one call."""
    return " and ".join(_changes(before, now)) or "the sandbox it would run in"


def _changes(before: HeldCall, now: HeldCall) -> Iterator[str]:
    old, new = before.call.args, now.call.args
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if names:
        yield f"its arguments ({', '.join(names)})"
    if before.call.cwd != now.call.cwd:
        yield "the folder it would run in"
    if before.definition_digest != now.definition_digest:
        yield "the definition of its tool"
    old_files, new_files = _contents(before), _contents(now)
    files = [path for path in sorted({*old_files, *new_files}) if old_files.get(path) != new_files.get(path)]
    if files:
        yield f"the content of {', '.join(files)}"
    if not names and _proposed(before) != _proposed(now):
        facts = {(fact.kind, fact.subject): fact.value for fact in _facts(before)}
        other = [fact.subject for fact in _facts(now) if facts.get((fact.kind, fact.subject)) != fact.value]
        yield f"what it would do ({', '.join(other)})" if other else "what it would do"


def _contents(held: HeldCall) -> dict[str, str]:
    return {file.path: file.digest for file in held.files}


def _facts(held: HeldCall) -> tuple[Precondition, ...]:
    return () if held.proposal is None else held.proposal.preconditions


def _proposed(held: HeldCall) -> object:
    proposal = held.proposal
    return None if proposal is None else (proposal.summary, proposal.risk, proposal.payload, proposal.preconditions)
