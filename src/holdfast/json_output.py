"""The objects that `--json` writes, one struct each. `docs/cli.md` is generated from these declarations."""
# fmt: off - one field, one line

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from holdfast.contract.call import Decision, NamedFile, RunConditions
from holdfast.contract.json import Args, Doc, Json
from holdfast.contract.widening import Widening

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.agent.conversation import Diagnostic, Slot
    from holdfast.agent.events import AgentEvent, Outcome
    from holdfast.chat.conversation import DocumentConversation
    from holdfast.chat.turns import Position
    from holdfast.config.layers import LayerReport
    from holdfast.contract.call import Caller, PendingCall, ProcessIdentity
    from holdfast.contract.event import Event
    from holdfast.contract.result import Attachment, Result
    from holdfast.contract.schedules import ScheduleStatus
    from holdfast.contract.tool import Tool
    from holdfast.factory.chat import ChatSession
    from holdfast.rules.decider import DecisionExplanation
    from holdfast.rules.skills import Skill
    from holdfast.runtime.runtime import Runtime
    from holdfast.runtime.undo.restore import PathUndo
    from holdfast.store.entries import Grant
    from holdfast.store.people import Person
    from holdfast.store.queries import CallRecord

JsonObject = dict[str, Any]
CallerObject = dict[str, str | None]


class Output(Struct):
    """Base class. The reference names an object by its class, without `Output`."""


class ErrorOutput(Output):
    kind: Annotated[str, Doc("what went wrong, as one word")]
    message: Annotated[str, Doc("the message")]
    exit_code: Annotated[int, Doc("the exit code")]


class FailedOutput(Output):
    error: ErrorOutput


class PendingOutput(Output):
    call_id: Annotated[str, Doc("the id of the call")]
    tool: Annotated[str, Doc("the tool's name")]
    state: Annotated[str, Doc("pending or approved")]
    waits_for: Annotated[str, Doc("approval, result, or program (approved; the program that called it runs it)")]
    preview: Annotated[str, Doc("one line: what the call would do")]
    args: Annotated[Args, Doc("the arguments")]
    summary: Annotated[str, Doc("what it would do, in a few words")]
    risk: Annotated[str | None, Doc("the proposal's risk, or null")]
    diff: Annotated[str | None, Doc("what it would change or run, or null")]
    surroundings: Annotated[
        RunConditions | None, Doc("of a command: where it runs, its sandbox, whether it can be undone; or null")
    ]
    decision: Annotated[Decision, Doc("why it needs approval: verdict, source, reason")]
    caller: Annotated[CallerObject, Doc("the caller: interface, agent, provider, skill, session")]
    cwd: Annotated[str, Doc("the directory it would run in")]
    held_at: Annotated[float, Doc("when it became pending, in seconds since 1970")]
    digest: Annotated[str, Doc("the digest that an approval is bound to")]
    files: Annotated[
        tuple[NamedFile, ...], Doc("project files that its command names: path, and the digest of the content")
    ]
    approver: Annotated[str | None, Doc("who approved it, or null")]
    approvals_needed: Annotated[int, Doc("how many different people must approve it")]
    approved_by: Annotated[Any, Doc("the identities that approved it so far, if it needs more than one")]
    waiting_pid: Annotated[int | None, Doc("the process that waits for the answer, or null")]

    @classmethod
    def of(cls, pending_call: PendingCall) -> PendingOutput:
        call, proposal = pending_call.call, pending_call.proposal
        return cls(
            call_id=call.id,
            tool=call.tool,
            state=pending_call.state,
            waits_for=waits_for(pending_call),
            preview=pending_call.preview,
            args=call.args,
            summary=pending_call.summary,
            risk=None if proposal is None else proposal.risk,
            diff=None if proposal is None else proposal.preview,
            surroundings=None if proposal is None else proposal.surroundings,
            decision=pending_call.decision,
            caller=_caller(call.caller),
            cwd=call.cwd,
            held_at=pending_call.held_at,
            digest=pending_call.digest,
            files=pending_call.files,
            approver=pending_call.approver,
            approvals_needed=pending_call.approvals_needed,
            approved_by=pending_call.approved_by,
            waiting_pid=None if pending_call.waiter is None else pending_call.waiter.pid,
        )


def waits_for(pending_call: PendingCall) -> str:
    """Return approval, result (the tool has no code), or program (approved; another process runs it)."""
    if pending_call.definition_only:
        return "result"
    return "program" if pending_call.state == "approved" else "approval"


class AttachmentOutput(Output):
    kind: Annotated[str, Doc("image, audio or file")]
    mime_type: Annotated[str, Doc("its MIME type")]
    name: Annotated[str | None, Doc("its name as the tool gave it, or null")]
    uri: Annotated[str | None, Doc("its address, or null")]
    audience: Annotated[str, Doc("everyone, or person: the model is only told about it")]
    digest: Annotated[str, Doc("the SHA-256 of its content; empty for a link")]
    size: Annotated[int, Doc("the size of its content in bytes")]
    path: Annotated[str | None, Doc("the file with its content, or null")]

    @classmethod
    def of(cls, item: Attachment) -> AttachmentOutput:
        return cls(**{name: getattr(item, name) for name in cls.__struct_fields__})


class ResultExtraOutput(Output):
    """The fields of `result` beyond those of `Result`; `error` replaces its `error` and `failure`."""

    exit_code: Annotated[int, Doc("the exit code")]
    error: Annotated[ErrorOutput | None, Doc("null, or an object `error`")]
    pending: Annotated[PendingOutput | None, Doc("null, or an object `pending` if the call is pending")]


def result_output(result: Result, pending_call: PendingCall | None = None) -> JsonObject:
    """Return every field of the result, including fields added later."""
    error = None
    if not result.success:
        kind = "unknown" if result.failure is None else result.failure.value
        error = ErrorOutput(kind=kind, message=result.error or "Unknown error", exit_code=result.exit_code)
    extra = ResultExtraOutput(
        exit_code=result.exit_code,
        error=error,
        pending=None if pending_call is None else PendingOutput.of(pending_call),
    )
    own = asdict(result)
    own["attachments"] = [AttachmentOutput.of(item) for item in result.attachments]
    del own["failure"]
    return own | asdict(extra)


class ToolOutput(Output):
    name: Annotated[str, Doc("the tool's name")]
    api_name: Annotated[str, Doc("its name for model providers")]
    aliases: Annotated[tuple[str, ...], Doc("its other names")]
    description: Annotated[str, Doc("what it does")]
    risk: Annotated[str, Doc("low, medium or high")]
    effects: Annotated[list[str] | None, Doc("its effects; [] is none, null is unknown")]
    source: Annotated[str, Doc("its source")]
    groups: Annotated[list[str], Doc("its groups")]
    timeout: Annotated[float | None, Doc("seconds, or null for the configured default")]
    secrets: Annotated[list[str], Doc("the secret scopes it needs")]
    input_schema: Annotated[JsonObject, Doc("JSON Schema of the arguments")]
    output_schema: Annotated[JsonObject | None, Doc("JSON Schema of `structured`, or null")]
    digest: Annotated[str, Doc("the digest of its definition")]
    policy: Annotated[Decision, Doc("the policy's decision about it: verdict, source, reason")]
    unavailable: Annotated[str | None, Doc("why it cannot be used on this machine, or null")]

    @classmethod
    def of(cls, tool: Tool, policy: Decision) -> ToolOutput:
        return cls(
            name=tool.name,
            api_name=tool.api_name,
            aliases=tool.aliases,
            description=tool.description,
            risk=tool.risk,
            effects=None if tool.effects is None else sorted(tool.effects),
            source=tool.source,
            groups=list(tool.groups),
            timeout=tool.timeout,
            secrets=list(tool.required_secret_scopes),
            input_schema=dict(tool.input_schema),
            output_schema=None if tool.output_schema is None else dict(tool.output_schema),
            digest=tool.digest,
            policy=policy,
            unavailable=None if tool.unavailable is None else tool.unavailable(),
        )


class SkillOutput(Output):
    name: Annotated[str, Doc("the skill's name")]
    state: Annotated[str, Doc("ok, untrusted, changed, invalid, or shadowed by another of the same name")]
    problem: Annotated[str, Doc("why it cannot be used, and what to do; empty if it can")]
    origin: Annotated[str, Doc("user, configured or project")]
    folder: Annotated[str, Doc("its folder")]
    description: Annotated[str, Doc("what it is for")]
    license: Annotated[str, Doc("its license, as it says")]
    compatibility: Annotated[str, Doc("what it needs, as it says")]
    metadata: Annotated[Any, Doc("its metadata, as it says")]
    tools: Annotated[Any, Doc("the tools that its manifest or `allowed-tools` names")]
    within: Annotated[Any, Doc("if it has both lists, the second, which must name a tool too; otherwise null")]
    dropped: Annotated[Any, Doc("entries of `allowed-tools` that no tool here is as narrow as")]
    digest: Annotated[str | None, Doc("the digest of its SKILL.md and manifest.json, or null")]

    @classmethod
    def of(cls, skill: Skill) -> SkillOutput:
        text, content = skill.text, skill.content
        return cls(
            name=skill.name,
            state=skill.state,
            problem=skill.problem,
            origin=skill.origin,
            folder=str(skill.folder),
            description="" if text is None else text.description,
            license="" if text is None else text.license,
            compatibility="" if text is None else text.compatibility,
            metadata={} if text is None else text.metadata,
            tools=skill.permissions.allow,
            within=skill.permissions.within,
            dropped=skill.permissions.dropped,
            digest=None if content is None else content.digest,
        )


class ExplanationOutput(Output):
    tool: Annotated[str, Doc("the tool's name")]
    decision: Annotated[Decision, Doc("verdict, source and reason")]
    steps: Annotated[list[JsonObject], Doc("every stage: stage, source, priority, answer, reason, decided")]
    parts: Annotated[
        list[JsonObject],
        Doc("of a shell command: kind, text, inside (what contains it), verdict or null, rule, reason"),
    ]
    depends: Annotated[bool, Doc("whether it was judged without arguments, which could change the decision")]

    @classmethod
    def of(cls, found: DecisionExplanation) -> ExplanationOutput:
        return cls(
            tool=found.tool,
            decision=found.decision,
            steps=to_builtins(found.steps),
            parts=to_builtins(found.parts),
            depends=found.depends,
        )


class CallOutput(Output):
    call_id: Annotated[str, Doc("the id of the call")]
    tool: Annotated[str, Doc("the tool's name")]
    name_used: Annotated[str, Doc("the name the caller used")]
    state: Annotated[str, Doc("the state of the call")]
    args: Annotated[Args, Doc("the arguments that were used")]
    original_args: Annotated[Json, Doc("what the caller sent, if that differs")]
    caller: Annotated[CallerObject, Doc("the caller: interface, agent, provider, skill, session")]
    cwd: Annotated[str, Doc("the directory it ran in")]
    widening: Annotated[Widening | None, Doc("how its sandbox was widened, or null")]
    parent: Annotated[str | None, Doc("the call it is nested in, or null")]
    received_at: Annotated[float, Doc("when it was received, in seconds since 1970")]
    began_at: Annotated[float | None, Doc("when it started to run, or null")]
    ended_at: Annotated[float | None, Doc("when it ended, or null")]
    decisions: Annotated[tuple[Decision, ...], Doc("every decision about it: verdict, source, reason")]
    answers: Annotated[
        list[JsonObject],
        Doc(
            "the answers of people: kind, by, user (the operating system account), identity (who authenticated), "
            "message, at"
        ),
    ]
    decided_by: Annotated[str, Doc("the person who answered last, else the rule that decided; empty while pending")]
    preview: Annotated[str, Doc("one line, as shown to a person; empty if nobody was asked")]
    result: Annotated[JsonObject | None, Doc("null, or an object `result`")]
    entries: Annotated[tuple[int, ...], Doc("the numbers of its entries in the ledger")]

    @classmethod
    def of(cls, record: CallRecord) -> CallOutput:
        call = record.call
        answers: list[JsonObject] = [
            {
                "kind": given.answer.kind,
                "by": given.answer.by,
                "user": given.answer.user,
                "identity": given.answer.identity,
                "message": given.answer.message,
                "at": given.at,
            }
            for given in record.answers
        ]
        return cls(
            call_id=call.id,
            tool=call.tool,
            name_used=call.name_used,
            state=record.state,
            args=call.args,
            original_args=record.original_args,
            caller=_caller(call.caller),
            cwd=call.cwd,
            widening=call.widening,
            parent=call.parent,
            received_at=record.received_at,
            began_at=record.began_at,
            ended_at=record.ended_at,
            decisions=record.decisions,
            answers=answers,
            decided_by=record.decided_by,
            preview=record.preview,
            result=None if record.result is None else result_output(record.result),
            entries=record.entries,
        )


class ScheduleOutput(Output):
    id: Annotated[str, Doc("the id of the schedule")]
    expression: Annotated[str, Doc("when it is due: a cron expression")]
    zone: Annotated[str, Doc("the time zone of the expression")]
    tool: Annotated[str | None, Doc("the tool that it calls, or null")]
    args: Annotated[Any, Doc("the arguments of the tool, or null")]
    document: Annotated[str | None, Doc("the document that it advances, or null")]
    message: Annotated[str, Doc("what it says in the document first")]
    caller: Annotated[Any, Doc("whose rights it has: interface, agent, provider, skill, session")]
    by: Annotated[str, Doc("who made it: interface and account")]
    created: Annotated[float, Doc("when it was made, in seconds since 1970")]
    call_id: Annotated[str, Doc("the call that added it")]
    next_at: Annotated[float | None, Doc("when it is due next, in seconds since 1970, or null")]
    last_at: Annotated[float | None, Doc("when it was due last and ran, or null")]
    last_call: Annotated[str | None, Doc("the call of the last run, or null")]
    last_state: Annotated[str, Doc("the state of that call, or the outcome of the document")]
    last_message: Annotated[str, Doc("why the last run failed, if it did")]
    missed: Annotated[int, Doc("how many runs did not take place")]
    missed_note: Annotated[str, Doc("which runs were missed last, and why")]
    running: Annotated[bool, Doc("whether a run is in progress")]

    @classmethod
    def of(cls, status: ScheduleStatus) -> ScheduleOutput:
        schedule, work = status.schedule, status.schedule.work
        return cls(
            id=schedule.id,
            expression=work.expression,
            zone=work.zone,
            tool=work.tool,
            args=work.args,
            document=work.document,
            message=work.message,
            caller=_caller(schedule.caller),
            by=schedule.by,
            created=schedule.created,
            call_id=schedule.call,
            next_at=status.next_at,
            last_at=status.last_at,
            last_call=status.last_call,
            last_state=status.last_state,
            last_message=status.last_message,
            missed=status.missed,
            missed_note=status.missed_note,
            running=status.running,
        )


class GrantOutput(Output):
    id: Annotated[str, Doc("the id of the grant")]
    tool: Annotated[str, Doc("the tool it allows")]
    scope: Annotated[str, Doc("once, session, project or user")]
    rule: Annotated[Args, Doc("the calls that it covers")]
    by: Annotated[str, Doc("who created it")]
    created: Annotated[float, Doc("when, in seconds since 1970")]
    expires: Annotated[float | None, Doc("until when, or null")]
    uses: Annotated[int | None, Doc("how often it can still be used, or null")]

    @classmethod
    def of(cls, grant: Grant) -> GrantOutput:
        return cls(
            id=grant.id,
            tool=grant.tool,
            scope=grant.scope,
            rule=grant.pattern,
            by=grant.by,
            created=grant.created,
            expires=grant.expires,
            uses=grant.uses,
        )


class PolicyOutput(Output):
    words: Annotated[list[str], Doc("the rules in sentences: what runs without asking, what can be reached")]
    tools: Annotated[JsonObject, Doc("the options of `[tools]`, and what untrusted files narrow (`narrow`)")]
    approval: Annotated[JsonObject, Doc("the options of `[approval]`, and what untrusted files narrow (`narrow`)")]
    confirmation: Annotated[JsonObject, Doc("the options of `[confirmation]`")]
    protected: Annotated[Any, Doc("protected path patterns beyond the built-in ones")]
    chain: Annotated[list[JsonObject], Doc("the approval chain, in order: name, priority, description")]
    caps: Annotated[list[str], Doc("the caps that apply after the chain, by name")]
    layers: Annotated[
        list[JsonObject], Doc("the configuration files: name, path, digest, trusted, applied, keys, ignored")
    ]

    @classmethod
    def of(cls, runtime: Runtime, layers: Iterable[LayerReport]) -> PolicyOutput:
        from holdfast.rules.policy_text import SECTIONS, policy_words

        config = runtime.config
        return cls(
            words=policy_words(config),
            **{section: to_builtins(getattr(config, section)) for section in SECTIONS},
            protected=config.protected,
            chain=[
                {"name": voice.name, "priority": voice.priority, "description": voice.description}
                for voice in runtime.approvals.chain.get_all()
            ],
            caps=[cap.name for cap in runtime.approvals.caps],
            layers=[to_builtins(layer) for layer in layers],
        )


class FuzzingOutput(Output):
    rule: Annotated[str, Doc("the rule that was fuzzed")]
    seed: Annotated[int, Doc("the random seed")]
    shell: Annotated[str, Doc("the shell that ran them")]
    mutants: Annotated[int, Doc("how many mutants there were")]
    unasked: Annotated[int, Doc("how many of them would run without asking; all of them were run")]
    escapes: Annotated[Any, Doc("those that do harm: command, base, mutation, rule, what")]


class VerificationOutput(Output):
    ledger: Annotated[str, Doc("the file")]
    ok: Annotated[bool, Doc("whether the hash chain is intact")]
    entries: Annotated[int, Doc("how many entries were verified")]
    pruned: Annotated[int, Doc("how many entries were pruned earlier")]
    head: Annotated[str, Doc("the last hash")]
    first_bad: Annotated[int | None, Doc("the first bad entry, or null")]
    problem: Annotated[str | None, Doc("what is wrong, or null")]
    unreadable: Annotated[Any, Doc("entries that are intact but cannot be read: entry, call, kind, problem")]


class NetworkOutput(Output):
    at: Annotated[float, Doc("when, in seconds since 1970; the last time if `count` is above 1")]
    by: Annotated[str, Doc("the tool and call, the MCP server or the model that asked")]
    host: Annotated[str, Doc("the host")]
    port: Annotated[int, Doc("the port")]
    outcome: Annotated[str, Doc("allowed, refused, or unresolved (the name has no address)")]
    addresses: Annotated[Any, Doc("the addresses of the host; empty if it was refused by name")]
    reason: Annotated[str, Doc("why it was refused or is unresolved, or empty")]
    count: Annotated[int, Doc("how many equal connections the line stands for")]


class ChangeOutput(Output):
    call_id: Annotated[str, Doc("the id of the call")]
    path: Annotated[str, Doc("the path that it changed")]
    kind: Annotated[str, Doc("created, modified, deleted, mode, or replaced by another kind of file")]
    undo: Annotated[str, Doc("put_back (as the call left it), already (as before the call) or refused")]
    why: Annotated[str | None, Doc("why it cannot be put back, or null")]
    diff: Annotated[str | None, Doc("the diff, with --diff; otherwise null")]

    @classmethod
    def of(cls, item: PathUndo, call_id: str, diff: str | None) -> ChangeOutput:
        path, why = json_path(item.path), json_path(item.why) or None
        return cls(call_id=call_id, path=path, kind=item.change.kind, undo=item.action, why=why, diff=diff)


def json_path(path: str) -> str:
    """Escape bytes that are not UTF-8, which JSON cannot hold."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class ChangingCallOutput(Output):
    call_id: Annotated[str, Doc("the id of the call")]
    tool: Annotated[str, Doc("the tool's name")]
    received_at: Annotated[float, Doc("when it was received, in seconds since 1970")]
    paths: Annotated[int, Doc("how many paths it changed")]
    undone_by: Annotated[str | None, Doc("the call that undid it, or null")]


class UndoOutput(Output):
    call_id: Annotated[str, Doc("the call that was undone")]
    undo_id: Annotated[str, Doc("the call that undid it")]
    success: Annotated[bool, Doc("whether everything that could be put back was")]
    error: Annotated[str | None, Doc("the error, or null")]
    changes: Annotated[list[ChangeOutput], Doc("an object `change` per path")]


class PruningOutput(Output):
    calls: Annotated[int, Doc("how many calls were removed")]
    entries: Annotated[int, Doc("how many ledger entries were removed")]
    blobs: Annotated[int, Doc("how many stored contents were removed")]
    freed: Annotated[int, Doc("the bytes that were freed")]
    kept_bytes: Annotated[int, Doc("the bytes of stored content that remain")]
    dry_run: Annotated[bool, Doc("whether nothing was removed (--dry-run)")]
    head: Annotated[str, Doc("the last hash now")]


class ConfigurationOutput(Output):
    config: Annotated[Any, Doc("every option by its key, with the value in force")]
    layers: Annotated[Any, Doc("the configuration files: name, path, digest, trusted, applied, keys, ignored")]
    notices: Annotated[Any, Doc("options that did not take effect, and why")]


class CheckOutput(Output):
    ok: Annotated[bool, Doc("true; a mistake is an `error`")]
    warnings: Annotated[list[str], Doc("names that match no tool or group")]


class EditedOutput(Output):
    path: Annotated[str, Doc("the file")]
    changed: Annotated[bool, Doc("whether it was changed")]


class PlacesOutput(Output):
    machine: Annotated[str, Doc("the machine's configuration file, which others can only tighten")]
    user: Annotated[str, Doc("the user's configuration file")]
    own: Annotated[str | None, Doc("the user's own rules for this project, or null")]
    project: Annotated[str | None, Doc("the project's configuration file, or null")]
    root: Annotated[str | None, Doc("the project's directory, or null")]
    state: Annotated[str, Doc("the folder with the state of this project")]
    ledger: Annotated[str, Doc("the ledger")]


class TrustOutput(Output):
    path: Annotated[str, Doc("the file")]
    digest: Annotated[str, Doc("the digest of its content")]
    by: Annotated[str | None, Doc("who trusted it, or null")]
    at: Annotated[float | None, Doc("when, in seconds since 1970, or null")]
    trusted: Annotated[bool, Doc("whether this content is trusted")]
    loosens: Annotated[list[JsonObject], Doc("what trusting it changes: key, from, to")]
    words: Annotated[list[str], Doc("the same in sentences: what runs without asking, what can be reached")] = []


class SlotOutput(Output):
    id: Annotated[str, Doc("the id in the document")]
    tool: Annotated[str, Doc("the tool's name")]
    arguments: Annotated[str, Doc("the arguments, as the model wrote them")]
    status: Annotated[str | None, Doc("pending, approved, denied, rejected, aborted, or null for a new call")]
    text: Annotated[str, Doc("the text that a person wrote into its block")]
    line: Annotated[int | None, Doc("the line of its block, from 1, or null")]
    call_id: Annotated[str | None, Doc("the id in the ledger, or null")]
    preview: Annotated[str, Doc("one line: what the call would do")]
    pending: Annotated[PendingOutput | None, Doc("null, or an object `pending` if it is pending")]

    @classmethod
    def of(cls, slot: Slot, runtime: Runtime) -> SlotOutput:
        pending_call = None if slot.call is None else runtime.pending.ledger.find_pending(slot.call.call_id)
        use = slot.use
        return cls(
            id=use.id,
            tool=use.name,
            arguments=use.arguments,
            status=slot.status,
            text=slot.text,
            line=slot.line,
            call_id=None if slot.call is None else slot.call.call_id,
            preview=call_preview(use.name, use.arguments, runtime) if pending_call is None else pending_call.preview,
            pending=None if pending_call is None else PendingOutput.of(pending_call),
        )


class OutcomeOutput(Output):
    event: Annotated[Literal["outcome"], Doc("`outcome`: the last line, unless its kind is `stale`")]
    kind: Annotated[str, Doc("done, stepped, pending, edited, stopped, failed, conflict, cancelled or stale")]
    message: Annotated[str, Doc("why it stopped; may be empty")]
    exit_code: Annotated[int, Doc("the exit code")]
    path: Annotated[str, Doc("the document")]
    slots: Annotated[list[SlotOutput], Doc("an object `slot` per call of the last reply without a result")]
    cursor: Annotated[Any, Doc("where an editor should put the cursor: line and column from 1, or null")]
    usage: Annotated[
        Any, Doc("tokens of this run: input, output, cache_read, cache_write, thinking; cost in $ or null")
    ]

    @classmethod
    def of(cls, outcome: Outcome, chat: ChatSession, settled: str | None) -> OutcomeOutput:
        """Build the object. `settled` is the last call that got its result, if no reply followed."""
        return cls(
            event="outcome",
            kind=outcome.kind,
            message=outcome.message,
            exit_code=outcome.exit_code,
            path=str(chat.path),
            slots=[SlotOutput.of(slot, chat.runtime) for slot in outcome.slots],
            cursor=_cursor(chat, settled),
            usage=outcome.usage,
        )


class DocumentOutput(Output):
    path: Annotated[str, Doc("the document")]
    next: Annotated[str, Doc("what happens next: categorise, execute, pending, edited, send or yours")]
    pid: Annotated[int | None, Doc("the process that is advancing it, or null")]
    model: Annotated[str, Doc("the model")]
    trusted: Annotated[bool | None, Doc("whether its frontmatter is trusted, or null without one")]
    slots: Annotated[list[SlotOutput], Doc("an object `slot` per call of the last reply without a result")]
    diagnostics: Annotated[list[JsonObject], Doc("problems: severity, message, line, column")]
    cursor: Annotated[Any, Doc("the first pending block: line and column from 1, or null")]
    replies: Annotated[int, Doc("how many replies are in it")]
    since_you: Annotated[int, Doc("how many of them since your last message")]
    usage: Annotated[Any, Doc("the tokens of all its replies, as in `outcome`")]

    @classmethod
    def of(
        cls,
        conversation: DocumentConversation,
        runtime: Runtime,
        *,
        driver: ProcessIdentity | None,
        model: str,
        trusted: bool | None,
        problems: Sequence[Diagnostic],
    ) -> DocumentOutput:
        """Build the object. `driver` is the process that advances it, `problems` are those of its frontmatter."""
        from holdfast.chat.turns import first_pending, reply_indexes

        slots = conversation.slots()
        return cls(
            path=str(conversation.path),
            next=_next_step(conversation, slots),
            pid=None if driver is None else driver.pid,
            model=model,
            trusted=trusted,
            slots=[SlotOutput.of(slot, runtime) for slot in slots],
            diagnostics=to_builtins([*problems, *conversation.diagnostics()]),
            cursor=position(first_pending(conversation.document)),
            replies=len(reply_indexes(conversation.document)),
            since_you=conversation.turns_since_user(),
            usage=conversation.usage,
        )


NEXT_STEPS = {
    "categorise": "new calls are judged",
    "execute": "answered calls run",
    "pending": "you answer the pending calls",
    "edited": "you remove the fence around your text",
    "send": "the model replies",
    "yours": "you write a message",
}
"""What happens next to a document, in words."""


def _next_step(conversation: DocumentConversation, slots: Sequence[Slot]) -> str:
    """Return what happens when the document is advanced: a key of `NEXT_STEPS`."""
    from holdfast.agent.conversation import Status

    if not slots:
        return "send" if conversation.awaits_reply() else "yours"
    if any(slot.status is None for slot in slots):
        return "categorise"
    if all(slot.status is Status.PENDING and not slot.text.strip() for slot in slots):
        return "pending"
    if any(slot.status is Status.APPROVED and slot.text.strip() for slot in slots):
        return "edited"
    return "execute"


class StopOutput(Output):
    path: Annotated[str | None, Doc("the document")]
    pid: Annotated[int | None, Doc("the process that was advancing it, or null")]
    told: Annotated[bool, Doc("whether it was told to stop")]


class ServingOutput(Output):
    url: Annotated[str, Doc("the address of the server, with --http")]
    token_file: Annotated[str, Doc("the file that holds the token")]
    token: Annotated[str | None, Doc("the token, with --show-token; otherwise null")]


class DaemonOutput(Output):
    url: Annotated[str, Doc("the address of the page and the API")]
    link: Annotated[str, Doc("a link that logs in once")]
    socket: Annotated[str | None, Doc("the private unix socket; null if another daemon has it")]


class LinkOutput(Output):
    link: Annotated[str, Doc("the link")]


class PersonOutput(Output):
    name: Annotated[str, Doc("the person's name")]
    right: Annotated[str | None, Doc("view or answer; null for a person who was removed")]
    created: Annotated[float | None, Doc("when they were added, in seconds since 1970, or null")]
    token: Annotated[str | None, Doc("the token, only when the person is added; otherwise null")]

    @classmethod
    def of(cls, person: Person) -> PersonOutput:
        return cls(name=person.name, right=person.right, created=person.created, token=None)


class ServerOutput(Output):
    name: Annotated[str, Doc("the server's name in the configuration")]
    state: Annotated[str, Doc("ready, away, starting or off")]
    transport: Annotated[str, Doc("stdio, http or sse")]
    command: Annotated[list[str] | None, Doc("the command and its arguments, or null")]
    url: Annotated[str | None, Doc("the address, or null")]
    tools: Annotated[int, Doc("how many tools it has here")] = 0
    changed: Annotated[int, Doc("how many of them are blocked because their definition changed")] = 0
    reason: Annotated[str, Doc("why it is not ready, or empty")] = ""
    title: Annotated[str, Doc("its own name for itself")] = ""
    version: Annotated[str, Doc("its version")] = ""
    protocol: Annotated[str, Doc("the negotiated MCP version")] = ""


class DefinitionOutput(Output):
    server: Annotated[str, Doc("the server's name")]
    tool: Annotated[str, Doc("the server's name of the tool")]
    new: Annotated[bool, Doc("whether the tool is new")]
    difference: Annotated[str, Doc("the diff of its definition")]
    accepted: Annotated[bool, Doc("whether the new definition was accepted")]


class ForgottenOutput(Output):
    server: Annotated[str, Doc("the server's name")]
    forgotten: Annotated[bool, Doc("whether any definitions were stored")]


class LoginOutput(Output):
    server: Annotated[str, Doc("the server's name")]
    logged_in: Annotated[bool, Doc("whether the login works")]
    reason: Annotated[str, Doc("why not, or empty")]


class GoogleLoginOutput(Output):
    account: Annotated[str, Doc("the name of the login")]
    used: Annotated[bool, Doc("whether google.account selects it")]
    logged_in: Annotated[bool, Doc("whether it can be used")]
    families: Annotated[list[str], Doc("the families that it covers")]
    granted_at: Annotated[str | None, Doc("when access was granted, or null")]
    reason: Annotated[str, Doc("why it cannot be used, or empty")]


class NotifyChannelOutput(Output):
    channel: Annotated[str, Doc("terminal, desktop, webhook or ntfy")]
    state: Annotated[Literal["on", "off", "sent", "failed"], Doc("on or off; with `notify test`: sent, failed or off")]
    target: Annotated[str, Doc("the sequence, the program or the origin of the address; empty if it is off")]
    reason: Annotated[str, Doc("why it is off or failed, or empty")]


class InstalledOutput(Output):
    client: Annotated[str, Doc("the MCP client")]
    path: Annotated[str, Doc("its configuration file")]
    changed: Annotated[bool, Doc("whether the file was changed")]
    diff: Annotated[str, Doc("the change, or what --yes would change; tokens are left out")]
    entry: Annotated[Any, Doc("the entry; tokens are left out")]
    ungoverned: Annotated[str, Doc("what holdfast does not check in this client")]


class FindingOutput(Output):
    group: Annotated[str, Doc("holdfast, project, optional or sandbox")]
    name: Annotated[str, Doc("what was checked")]
    status: Annotated[Literal["ok", "note", "bad"], Doc("ok, note or bad")]
    text: Annotated[str, Doc("what was found")]
    fix: Annotated[str, Doc("how to fix it, such as the install command; may be empty")] = ""


class WrittenOutput(Output):
    path: Annotated[str, Doc("the file")]
    content: Annotated[str, Doc("its content")]


class TopicOutput(Output):
    topic: Annotated[str, Doc("its name")]
    title: Annotated[str, Doc("its title")]
    text: Annotated[str, Doc("the page or the section; empty in the list")]


class ScriptOutput(Output):
    shell: Annotated[str, Doc("the shell")]
    script: Annotated[str, Doc("the script to evaluate")]


def event_output(event: AgentEvent | Event) -> JsonObject:
    """Return the object of any event of `holdfast chat --json` except the outcome."""
    from holdfast.contract.result import Result

    shape: JsonObject = to_builtins(event)
    result = getattr(event, "result", None)
    return shape | {"result": result_output(result)} if isinstance(result, Result) else shape


def _cursor(chat: ChatSession, settled: str | None) -> JsonObject | None:
    """Return the first pending block; else, after a settled call, the position that `chat.cursor_after_result` says."""
    from holdfast.chat.turns import Position, after_result, first_pending, reply_indexes

    document = chat.conversation.document
    pending = first_pending(document)
    if pending is not None or settled is None:
        return position(pending)
    stay = Position(0, 0)
    mode = chat.runtime.config.chat.cursor_after_result
    found = after_result(document, len(reply_indexes(document)) - 1, settled, mode, stay)
    return None if found == stay else position(found)


def position(found: Position | None) -> JsonObject | None:
    return None if found is None else found._asdict()


def call_preview(name: str, arguments: str, runtime: Runtime, width: int = 160) -> str:
    """Return one line about what a call would do, judged by its arguments."""
    from holdfast.contract.errors import HoldfastError
    from holdfast.contract.json import parse_json
    from holdfast.text.escape import clip, escape
    from holdfast.text.preview import preview

    tool = runtime.registry.find(name)
    try:
        args = parse_json(arguments)
    except HoldfastError:
        args = None
    if not isinstance(args, dict):
        return clip(escape(f"{name}: {arguments}"), width)
    return preview(name, args, width, None if tool is None else tool.format_preview)


def _caller(caller: Caller) -> CallerObject:
    names = ("interface", "agent", "provider", "skill", "session")
    return {name: getattr(caller, name) for name in names}
