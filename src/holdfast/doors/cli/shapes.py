"""What `--json` writes: the same names for the same things in every command. `FIELDS` is the reference of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

if TYPE_CHECKING:
    from holdfast.contract.call import Caller, Decision, HeldCall
    from holdfast.contract.result import Result
    from holdfast.contract.tool import Tool
    from holdfast.rules.explain import Explanation
    from holdfast.store.bodies import Grant
    from holdfast.store.queries import CallRecord

Shape = dict[str, Any]


def result_shape(result: Result, held: HeldCall | None = None) -> Shape:
    error = None
    if not result.success:
        kind = "unknown" if result.failure is None else result.failure.value
        error = {"kind": kind, "message": result.error or "Unknown error", "exit_code": result.exit_code}
    return {
        "call_id": result.call_id,
        "state": result.state,
        "success": result.success,
        "exit_code": result.exit_code,
        "output": result.output,
        "structured": result.structured,
        "error": error,
        "metadata": result.metadata,
        "attachments": to_builtins(result.attachments),
        "pending": None if held is None else held_shape(held),
    }


def held_shape(held: HeldCall) -> Shape:
    call, proposal = held.call, held.proposal
    return {
        "call_id": call.id,
        "tool": call.tool,
        "state": held.state,
        "waits_for": waits_for(held),
        "preview": held.preview,
        "args": call.args,
        "summary": None if proposal is None else proposal.summary,
        "risk": None if proposal is None else proposal.risk,
        "diff": None if proposal is None else proposal.preview,
        "decision": decision_shape(held.decision),
        "caller": caller_shape(call.caller),
        "cwd": call.cwd,
        "held_at": held.held_at,
        "digest": held.digest,
        "approver": held.approver,
        "waiting_pid": None if held.waiter is None else held.waiter.pid,
    }


def waits_for(held: HeldCall) -> str:
    """approval, result (the tool has no code of its own), or program (approved; whoever knows the tool runs it)."""
    if held.definition_only:
        return "result"
    return "program" if held.state == "approved" else "approval"


def decision_shape(decision: Decision) -> Shape:
    return {"verdict": decision.verdict, "source": decision.source, "reason": decision.reason}


def caller_shape(caller: Caller) -> Shape:
    return {
        "door": caller.door,
        "agent": caller.agent,
        "provider": caller.provider,
        "skill": caller.skill,
        "session": caller.session,
    }


def tool_shape(tool: Tool, policy: Decision) -> Shape:
    return {
        "name": tool.name,
        "api_name": tool.api_name,
        "aliases": tool.aliases,
        "description": tool.description,
        "risk": tool.risk,
        "effects": None if tool.effects is None else sorted(tool.effects),
        "source": tool.source,
        "groups": tool.groups,
        "timeout": tool.timeout,
        "secrets": tool.required_secret_scopes,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "digest": tool.digest,
        "policy": decision_shape(policy),
    }


def explanation_shape(explanation: Explanation) -> Shape:
    return {
        "tool": explanation.tool,
        "decision": decision_shape(explanation.decision),
        "steps": to_builtins(explanation.steps),
    }


def record_shape(record: CallRecord) -> Shape:
    call = record.call
    return {
        "call_id": call.id,
        "tool": call.tool,
        "name_used": call.name_used,
        "state": record.state,
        "args": call.args,
        "original_args": record.original_args,
        "caller": caller_shape(call.caller),
        "cwd": call.cwd,
        "parent": call.parent,
        "received_at": record.received_at,
        "began_at": record.began_at,
        "ended_at": record.ended_at,
        "decisions": [decision_shape(decision) for decision in record.decisions],
        "answers": [
            {"kind": given.answer.kind, "by": given.answer.by, "message": given.answer.message, "at": given.at}
            for given in record.answers
        ],
        "result": None if record.result is None else result_shape(record.result),
        "entries": record.entries,
    }


def grant_shape(grant: Grant) -> Shape:
    return {
        "id": grant.id,
        "tool": grant.tool,
        "scope": grant.scope,
        "rule": grant.pattern,
        "by": grant.by,
        "created": grant.created,
        "expires": grant.expires,
        "uses": grant.uses,
    }


FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "error": {
        "kind": "what went wrong, as one word",
        "message": "the sentence",
        "exit_code": "the exit code",
    },
    "result": {
        "call_id": "the id of the call",
        "state": "done, failed, invalid, denied, rejected, pending, approved, timed_out, unknown or cancelled",
        "success": "whether the tool did what was asked",
        "exit_code": "the exit code",
        "output": "what the tool returned, as text",
        "structured": "what the tool returned, as JSON, or null",
        "error": "null, or an object `error`",
        "metadata": "facts about the output, such as whether it was cut",
        "attachments": "images, audio and files; `data` is base64",
        "pending": "null, or an object `pending` when the call waits",
    },
    "pending": {
        "call_id": "the id of the call",
        "tool": "the tool's name",
        "state": "pending or approved",
        "waits_for": "approval, result, or program (approved, and run by the program that knows the tool)",
        "preview": "one line: what the call would do",
        "args": "the arguments",
        "summary": "what a two-phase tool proposes, or null",
        "risk": "the proposal's risk, or null",
        "diff": "what the proposal would change, or null",
        "decision": "why it is asked about: verdict, source, reason",
        "caller": "who asked: door, agent, provider, skill, session",
        "cwd": "the directory it would run in",
        "held_at": "since when, in seconds since 1970",
        "digest": "what an approval is bound to",
        "approver": "who approved it, or null",
        "waiting_pid": "the process that waits for the answer, or null",
    },
    "tool": {
        "name": "the tool's name",
        "api_name": "its name for model providers",
        "aliases": "its other names",
        "description": "what it does",
        "risk": "low, medium or high",
        "effects": "what it may do; [] is nothing at all, null is not known",
        "source": "where it comes from",
        "groups": "the groups it says it is in",
        "timeout": "seconds, or null for the configured default",
        "secrets": "the secret scopes it needs",
        "input_schema": "JSON Schema of the arguments",
        "output_schema": "JSON Schema of `structured`, or null",
        "digest": "of its definition",
        "policy": "why it may be used here: verdict, source, reason",
    },
    "explanation": {
        "tool": "the tool's name",
        "decision": "verdict, source and reason",
        "steps": "everyone who had a say: stage, source, priority, answer, reason, and whether it decided",
    },
    "call": {
        "call_id": "the id of the call",
        "tool": "the tool's name",
        "name_used": "the name the caller used",
        "state": "where the call is, or how it ended",
        "args": "the arguments that were used",
        "original_args": "what the caller sent, where that differs",
        "caller": "who asked: door, agent, provider, skill, session",
        "cwd": "the directory it ran in",
        "parent": "the call it is nested in, or null",
        "received_at": "when it came, in seconds since 1970",
        "began_at": "when it began to run, or null",
        "ended_at": "when it ended, or null",
        "decisions": "every decision about it: verdict, source, reason",
        "answers": "what people said: kind, by, message, at",
        "result": "null, or an object `result`",
        "entries": "the numbers of its entries in the ledger",
    },
    "grant": {
        "id": "the id of the grant",
        "tool": "the tool it allows",
        "scope": "once, session, project or user",
        "rule": "which calls it covers",
        "by": "who gave it",
        "created": "when, in seconds since 1970",
        "expires": "until when, or null",
        "uses": "how often it can still be used, or null",
    },
    "policy": {
        "tools": "profile, allow, deny, and what narrows them",
        "approval": "what runs without asking, and its limits",
        "hooks": "autonomy and actions",
        "protected": "protected path patterns beyond the built-in ones",
        "chain": "who is asked, in order: name, priority, description",
        "caps": "the limits after the chain, by name",
        "layers": "where it comes from: name, path, digest, trusted, applied, keys, ignored",
    },
    "verification": {
        "ledger": "the file",
        "ok": "whether it is whole",
        "entries": "how many entries were found good",
        "head": "the last hash",
        "first_bad": "the first bad entry, or null",
        "problem": "what is wrong, or null",
    },
    "configuration": {
        "config": "every option by its key, as it is in force",
        "layers": "where it comes from: name, path, digest, trusted, applied, keys, ignored",
        "notices": "what did not take effect, and why",
    },
    "check": {"ok": "true; a mistake is an `error`", "warnings": "names no tool or group has"},
    "places": {
        "user": "the user's configuration file",
        "project": "the project's configuration file, or null",
        "root": "the project's directory, or null",
        "state": "the folder that remembers for this project",
        "ledger": "the ledger",
    },
    "trust": {
        "path": "the file",
        "digest": "of its content",
        "by": "who trusted it, or null",
        "at": "when, in seconds since 1970, or null",
        "trusted": "whether this content is trusted",
        "loosens": "what trusting it changes: key, from, to",
    },
    "finding": {"name": "what was looked at", "status": "ok, note or bad", "text": "what was found"},
    "written": {"path": "the file", "content": "what it holds"},
    "script": {"shell": "the shell", "script": "what to evaluate in it"},
}
"""Every object by its name in the reference, with every field it has."""
