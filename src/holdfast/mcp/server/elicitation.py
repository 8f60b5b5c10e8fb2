"""Converts questions to MCP elicitation, sampling and roots requests, and their responses to answers. Approvals are
forms."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

import mcp_types as types
from msgspec.structs import asdict, replace
from pydantic import BaseModel

from holdfast.contract.call import Answer, Call, PendingCall, RunConditions
from holdfast.contract.elicitation import (
    CANCELLED,
    ElicitationReply,
    FormRequest,
    Question,
    RootsRequest,
    SamplingRequest,
    UrlRequest,
)
from holdfast.contract.errors import InvalidArguments, InvalidSchema
from holdfast.contract.json import Args, Json
from holdfast.contract.schema import compile_schema
from holdfast.contract.tool import Tool
from holdfast.mcp.server.wire import clean, clean_text
from holdfast.rules.chain import reason_with_source
from holdfast.rules.decider import CHANGED
from holdfast.rules.form_safety import asks_for_a_secret, url_problem
from holdfast.runtime.results import approvals_so_far
from holdfast.store.redact import Redactor
from holdfast.text.escape import (
    clip_middle,
    escape,
    escape_block,
    escape_name,
    escape_once,
    escape_url,
    fingerprint,
    text_width,
)
from holdfast.text.preview import format_arguments, preview
from holdfast.text.quote import EscapeLine, quote_lines, split_ends

WIDTH: Final = 160
_COLUMNS: Final = 80
"""Line width. MCP clients do not report theirs, and few are narrower."""
_MAX_SENTENCE: Final = 2000
_MAX_LINES: Final = 400
"""Lines of a proposal. A longer one cannot be approved here."""


class ApprovalText(NamedTuple):
    """The text that a user reads before approving."""

    text: str
    whole: bool
    """Whether the text shows the whole call. If not, the call cannot be approved from it."""


def redacted(held: PendingCall, tool: Tool | None, redactor: Redactor) -> PendingCall:
    """The pending call without secrets. Redaction comes before cutting: half a secret would not be recognised."""
    call = replace(held.call, args=cast(Args, redactor.value(held.call.args)))
    proposal = held.proposal
    if proposal is not None:
        around = proposal.surroundings
        proposal = replace(
            proposal,
            summary=redactor(proposal.summary),
            preview=redactor(proposal.preview),
            surroundings=around and RunConditions(**{name: redactor(words) for name, words in asdict(around).items()}),
        )
    return replace(
        held,
        call=call,
        preview=line_of(call, tool),
        summary=redactor(held.summary),
        decision=replace(held.decision, reason=redactor(held.decision.reason)),
        proposal=proposal,
    )


def line_of(call: Call, tool: Tool | None) -> str:
    """The call in one line, already escaped. Its arguments must be redacted."""
    return preview(call.name_used, call.args, WIDTH, None if tool is None else tool.format_preview)


def approval_text(held: PendingCall, risk: str) -> ApprovalText:
    """The whole description of a redacted pending call: holdfast's own lines first, then the text of the call."""
    lines = list(_head(held, risk))
    cut = held.proposal is not None and held.proposal.preview_cut
    texts: list[str] = []
    for label, text, show in _body(held):
        head, hidden, tail = split_ends(quote_lines(text, _COLUMNS, show), _MAX_LINES)
        lines += [label, *head, *([f"[{hidden:,} lines hidden]", *tail] if hidden else [])]
        cut = cut or hidden > 0
        texts.append(text)
    if cut:
        whole = fingerprint("\n".join(texts))
        call_id = escape_name(held.call.id)
        lines.append(f"Part of the call is not shown: holdfast pending {call_id} ({whole})")
        lines.append(f"It cannot be approved here. Use `holdfast approve {call_id}`, which shows all of it first.")
    return ApprovalText("\n".join(lines), whole=not cut)


def _head(held: PendingCall, risk: str) -> Iterator[str]:
    call, proposal = held.call, held.proposal
    tool = escape_name(call.name_used or call.tool)
    yield f"This call needs a result: {tool}" if held.definition_only else f"May this run? {tool}"
    yield from _field("Asked by", call.caller.agent or "an MCP client")
    yield f"Call: {escape_name(call.id)}, tool {escape_name(call.tool)}"
    yield from _field("Why", reason_with_source(held.decision))
    if held.approvals_needed > 1:
        yield f"People: {approvals_so_far(held)}"
    yield f"Risk: {escape_name(proposal.risk if proposal else risk)}"
    around = None if proposal is None else proposal.surroundings
    for name, words in () if around is None else asdict(around).items():
        yield from _field(name.capitalize(), words) if words else ()
    if proposal is None or not proposal.preview:
        return
    label = call.args.get("label")
    if isinstance(label, str) and label.strip():
        yield from _field("Label", label)
    if held.summary and held.summary not in proposal.preview:
        yield from _field("Does", held.summary)


def _field(name: str, text: str) -> Iterator[str]:
    """Foreign text behind a label, or quoted below it if it is longer than a line."""
    shown = escape(clip_middle(text, _MAX_SENTENCE))
    if "\n" not in text and len(name) + 2 + text_width(shown) < _COLUMNS:
        yield f"{name}: {shown}"
        return
    yield f"{name}:"
    yield from quote_lines(clip_middle(text, _MAX_SENTENCE), _COLUMNS)


def _body(held: PendingCall) -> Iterator[tuple[str, str, EscapeLine | None]]:
    """The labelled parts of the description: the preview, or the arguments if there is none. The preview of a changed
    definition comes with the arguments and is already escaped."""
    is_definition = held.decision.source == CHANGED
    preview = "" if held.proposal is None else held.proposal.preview.rstrip("\n")
    if not preview or is_definition:
        yield "With:", format_arguments(held.call.args), None
    if preview:
        yield "What it would do:", preview, escape_once if is_definition else None


SERVER: Final = "mcp:"
"""Prefix of an asker's name that marks an MCP server."""
_MAX_ASKED: Final = 4000
_MAX_TITLE: Final = 200
_MAX_DESCRIPTION: Final = 1000
_MAX_FIELDS: Final = 50
_MAX_CHOICES: Final = 200


def presented(question: Question, asked_by: str) -> Question | None:
    """The question with the name of its asker; None if it is declined without asking the user."""
    if isinstance(question, SamplingRequest):
        return None  # sampling is meant for a person here, and a client would pass it on to its model
    if isinstance(question, FormRequest):
        if asks_for_a_secret(question):
            return None
        schema = _shown(question.schema)
        return None if schema is None else replace(question, message=_told(question.message, asked_by), schema=schema)
    if isinstance(question, UrlRequest):
        if url_problem(question.url) is not None:
            return None
        message = f"{question.message}\n{escape_url(question.url)}"
        return replace(question, message=_told(message, asked_by))
    return question


def _told(message: str, asked_by: str) -> str:
    name = escape(clip_middle(asked_by.removeprefix(SERVER), _MAX_TITLE))
    lines = quote_lines(clip_middle(message, _MAX_ASKED), _COLUMNS)
    warning = "(Do not enter passwords or other secrets.)"
    return "\n".join((f"The MCP server '{name}' asks this, not holdfast:", warning, *lines))


def _shown(schema: Args) -> Args | None:
    """The same form with escaped and bounded labels; None if a user could not read it in full."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > _MAX_FIELDS:
        return None
    fields: Args = {}
    for name, part in properties.items():
        if not isinstance(part, dict) or not _readable(name, part):
            return None
        fields[name] = _plain_field(part)
    return {**schema, **_words(schema), "properties": fields}


def _readable(name: str, part: Args) -> bool:
    """Whether all names and values can be shown unchanged. They are sent back, so they cannot be escaped."""
    items = part.get("items")
    parts = [part, items] if isinstance(items, dict) else [part]
    values: list[Json] = [name]
    for each in parts:
        values += _choices(each, "enum")
        values += [_const(item) for key in ("oneOf", "anyOf") for item in _choices(each, key)]
    texts = [value for value in values if isinstance(value, str)]
    if len(values) > _MAX_CHOICES or any(len(text) > _MAX_TITLE or escape(text) != text for text in texts):
        return False
    given = part.get("default")
    return not isinstance(given, str) or (len(given) <= _MAX_DESCRIPTION and escape_block(given) == given)


def _plain_field(part: Args) -> Args:
    shown: dict[str, Any] = {**part, **_words(part)}
    if "enumNames" in part:
        shown["enumNames"] = [_title(name) for name in _choices(part, "enumNames")]
    for key in ("oneOf", "anyOf"):
        if key in part:
            shown[key] = [_plain_field(item) if isinstance(item, dict) else item for item in _choices(part, key)]
    if isinstance(items := part.get("items"), dict):
        shown["items"] = _plain_field(items)
    return shown


def _words(part: Args) -> Args:
    words: Args = {}
    if "title" in part:
        words["title"] = _title(part["title"])
    if isinstance(text := part.get("description"), str):
        words["description"] = escape_block(clip_middle(text, _MAX_DESCRIPTION))
    return words


def _title(text: Json) -> str:
    return escape(clip_middle(text if isinstance(text, str) else str(text), _MAX_TITLE))


def _choices(part: Args, key: str) -> list[Json]:
    found = part.get(key)
    return cast("list[Json]", found) if isinstance(found, list) else []


def _const(item: Json) -> Json:
    return item.get("const") if isinstance(item, dict) else None


_MAX_MESSAGE: Final = 10_000
_TITLES_SINCE: Final = "2025-11-25"
"""First protocol version in which choices carry their titles as `oneOf`."""


def approval_form(held: PendingCall, risk: str, protocol: str) -> FormRequest:
    """The approval question: what would happen, and the fields for the decision. The call must be redacted."""
    shown = approval_text(held, risk)
    if held.definition_only:
        fields: Args = {
            "result": {"type": "string", "title": "Result", "description": "The result to return in the tool's place."}
        }
        return FormRequest(message=shown.text, schema=_object(fields, "result"))
    choice: dict[str, Json] = {"type": "string", "title": "Decision", "description": "Whether this call may run."}
    answers = {"approve": "Approve", "reject": "Reject"} if shown.whole else {"reject": "Reject"}
    if protocol >= _TITLES_SINCE:
        choice["oneOf"] = [{"const": value, "title": title} for value, title in answers.items()]
    else:
        choice |= {"enum": [*answers], "enumNames": [*answers.values()]}
    note: Args = {"type": "string", "title": "Message", "description": "What the model is told if you reject it."}
    return FormRequest(message=shown.text, schema=_object({"decision": choice, "message": note}, "decision"))


def answer_of(reply: ElicitationReply, held: PendingCall, by: str) -> Answer | None:
    """The user's decision; None leaves the call pending."""
    said = reply.content or {}
    if reply.action == "cancel":
        return None
    message = said.get("message")
    message = message[:_MAX_MESSAGE] if isinstance(message, str) else ""
    if reply.action == "decline":
        return Answer(kind="reject", by=by, message=message)
    if held.definition_only:
        return Answer(kind="respond", by=by, message=str(said.get("result", "")))
    if said.get("decision") == "approve":
        return Answer(kind="approve", by=by)
    return Answer(kind="reject", by=by, message=message) if said.get("decision") == "reject" else None


def request_of(question: Question) -> types.InputRequest:
    """The question as an MCP request."""
    if isinstance(question, FormRequest):
        message = clean_text(question.message)
        form = types.ElicitRequestFormParams(message=message, requested_schema=clean(question.schema))
        return types.ElicitRequest(params=form)
    if isinstance(question, UrlRequest):
        visit = types.ElicitRequestURLParams(
            message=clean_text(question.message),
            url=clean_text(question.url),
            elicitation_id=clean_text(question.id) or secrets.token_hex(8),
        )
        return types.ElicitRequest(params=visit)
    if isinstance(question, RootsRequest):
        return types.ListRootsRequest()
    params: dict[str, Any] = {
        **(question.extra or {}),
        "messages": [{"role": said.role, "content": said.content} for said in question.messages],
        "maxTokens": question.max_tokens or 1000,
    }
    if question.system:
        params["systemPrompt"] = question.system
    wanted = types.CreateMessageRequestParams.model_validate(clean(params), by_name=False)
    return types.CreateMessageRequest(params=wanted)


def result_type(question: Question) -> type[BaseModel]:
    """The MCP result type that answers the question."""
    if isinstance(question, FormRequest | UrlRequest):
        return types.ElicitResult
    if isinstance(question, RootsRequest):
        return types.ListRootsResult
    wants_tools = question.extra is not None and ("tools" in question.extra or "toolChoice" in question.extra)
    return types.CreateMessageResultWithTools if wants_tools else types.CreateMessageResult


def reply_to(question: Question, response: object) -> ElicitationReply | None:
    """The reply in a response; None if it does not answer this question, which then stays open."""
    if isinstance(question, FormRequest | UrlRequest):
        if not isinstance(response, types.ElicitResult):
            return None
        if response.action != "accept":
            return ElicitationReply(action=response.action, content=response.content)  # pyright: ignore[reportArgumentType]
        return (
            _filled_in(question, response) if isinstance(question, FormRequest) else ElicitationReply(action="accept")
        )
    if isinstance(question, RootsRequest):
        return _wire(response) if isinstance(response, types.ListRootsResult) else None
    answers = (types.CreateMessageResult, types.CreateMessageResultWithTools)
    return _wire(response) if isinstance(response, answers) else None


def can_answer(question: Question, capabilities: types.ClientCapabilities | None) -> bool:
    """Whether the client declared the capability for this kind of question."""
    if capabilities is None:
        return False
    if isinstance(question, SamplingRequest):
        return capabilities.sampling is not None
    if isinstance(question, RootsRequest):
        return capabilities.roots is not None
    elicitation = capabilities.elicitation
    if elicitation is None:
        return False
    if isinstance(question, UrlRequest):
        return elicitation.url is not None
    return elicitation.form is not None or elicitation.url is None  # an empty object means forms


def _filled_in(form: FormRequest, response: types.ElicitResult) -> ElicitationReply | None:
    """The submitted values if they fit the form. Some clients send null for an empty field."""
    given: Any = {name: value for name, value in (response.content or {}).items() if value is not None}
    try:
        values = compile_schema(form.schema, "The form").check(given)
    except InvalidSchema:
        return CANCELLED
    return None if isinstance(values, InvalidArguments) else ElicitationReply(action="accept", content=values)


def _wire(response: BaseModel) -> ElicitationReply:
    return ElicitationReply(action="accept", content=response.model_dump(by_alias=True, mode="json", exclude_none=True))


def _object(properties: Args, *required: str) -> Args:
    return {"type": "object", "properties": properties, "required": list(required)}
