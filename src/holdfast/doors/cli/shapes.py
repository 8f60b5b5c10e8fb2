"""What `--json` writes: the same names for the same things in every command. `fields` says what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

if TYPE_CHECKING:
    from holdfast.contract.call import Caller, Decision, PendingCall
    from holdfast.contract.result import Result
    from holdfast.contract.tool import Tool
    from holdfast.rules.explain import Explanation
    from holdfast.store.bodies import Grant
    from holdfast.store.queries import CallRecord

Shape = dict[str, Any]


def result_shape(result: Result, held: PendingCall | None = None) -> Shape:
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


def held_shape(held: PendingCall) -> Shape:
    call, proposal = held.call, held.proposal
    return {
        "call_id": call.id,
        "tool": call.tool,
        "state": held.state,
        "waits_for": waits_for(held),
        "preview": held.preview,
        "args": call.args,
        "summary": held.summary,
        "risk": None if proposal is None else proposal.risk,
        "diff": None if proposal is None else proposal.preview,
        "surroundings": to_builtins(None if proposal is None else proposal.surroundings),
        "decision": decision_shape(held.decision),
        "caller": caller_shape(call.caller),
        "cwd": call.cwd,
        "held_at": held.held_at,
        "digest": held.digest,
        "files": to_builtins(held.files),
        "approver": held.approver,
        "waiting_pid": None if held.waiter is None else held.waiter.pid,
    }


def waits_for(held: PendingCall) -> str:
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
        "parts": to_builtins(explanation.parts),
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
