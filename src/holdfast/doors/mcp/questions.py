"""What a client's person is asked, in the client's terms, and what their answer says: approvals are questions too."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types

from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.errors import InvalidArguments, InvalidSchema
from holdfast.contract.inquiry import CANCELLED, Completion, Form, Question, Reply, Roots, Visit
from holdfast.contract.schema import compile_schema
from holdfast.contract.values import Args, Json
from holdfast.doors.mcp.showing import approval_text
from holdfast.doors.mcp.wire import clean, clean_text

if TYPE_CHECKING:
    from pydantic import BaseModel

_MAX_MESSAGE: Final = 10_000
_TITLES_SINCE: Final = "2025-11-25"
"""From this protocol on a choice carries its titles as `oneOf`."""


def approval_form(held: PendingCall, risk: str, protocol: str) -> Form:
    """What a person has to see before saying yes, and where they say it. The call must be redacted."""
    shown = approval_text(held, risk)
    if held.definition_only:
        fields: Args = {"result": {"type": "string", "title": "Result", "description": "What the tool answers."}}
        return Form(message=shown.text, schema=_object(fields, "result"))
    choice: dict[str, Json] = {"type": "string", "title": "Decision", "description": "Whether this call may run."}
    answers = {"approve": "Approve", "reject": "Reject"} if shown.whole else {"reject": "Reject"}
    if protocol >= _TITLES_SINCE:
        choice["oneOf"] = [{"const": value, "title": title} for value, title in answers.items()]
    else:
        choice |= {"enum": [*answers], "enumNames": [*answers.values()]}
    note: Args = {"type": "string", "title": "Message", "description": "What the model is told if you reject it."}
    return Form(message=shown.text, schema=_object({"decision": choice, "message": note}, "decision"))


def answer_of(reply: Reply, held: PendingCall, by: str) -> Answer | None:
    """What the person decided; None leaves the call waiting."""
    said = reply.content or {}
    if reply.action == "cancel":
        return None
    message = said.get("message")
    message = message[:_MAX_MESSAGE] if isinstance(message, str) else ""
    if reply.action == "decline":
        return Answer(kind="reject", by=by, message=message)
    if held.definition_only:
        return Answer(kind="result", by=by, message=str(said.get("result", "")))
    if said.get("decision") == "approve":
        return Answer(kind="approve", by=by)
    return Answer(kind="reject", by=by, message=message) if said.get("decision") == "reject" else None


def request_of(question: Question) -> types.InputRequest:
    """The question as the request a client knows."""
    if isinstance(question, Form):
        message = clean_text(question.message)
        form = types.ElicitRequestFormParams(message=message, requested_schema=clean(question.schema))
        return types.ElicitRequest(params=form)
    if isinstance(question, Visit):
        visit = types.ElicitRequestURLParams(
            message=clean_text(question.message),
            url=clean_text(question.url),
            elicitation_id=clean_text(question.id) or secrets.token_hex(8),
        )
        return types.ElicitRequest(params=visit)
    if isinstance(question, Roots):
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
    """What a client answers it with."""
    if isinstance(question, Form | Visit):
        return types.ElicitResult
    if isinstance(question, Roots):
        return types.ListRootsResult
    wants_tools = question.extra is not None and ("tools" in question.extra or "toolChoice" in question.extra)
    return types.CreateMessageResultWithTools if wants_tools else types.CreateMessageResult


def reply_to(question: Question, response: object) -> Reply | None:
    """What was said; None if it is no answer to this question, which then stays open."""
    if isinstance(question, Form | Visit):
        if not isinstance(response, types.ElicitResult):
            return None
        if response.action != "accept":
            return Reply(action=response.action, content=response.content)  # pyright: ignore[reportArgumentType]
        return _filled_in(question, response) if isinstance(question, Form) else Reply(action="accept")
    if isinstance(question, Roots):
        return _wire(response) if isinstance(response, types.ListRootsResult) else None
    answers = (types.CreateMessageResult, types.CreateMessageResultWithTools)
    return _wire(response) if isinstance(response, answers) else None


def can_answer(question: Question, capabilities: types.ClientCapabilities | None) -> bool:
    """Whether the client said that it knows this kind of question."""
    if capabilities is None:
        return False
    if isinstance(question, Completion):
        return capabilities.sampling is not None
    if isinstance(question, Roots):
        return capabilities.roots is not None
    elicitation = capabilities.elicitation
    if elicitation is None:
        return False
    if isinstance(question, Visit):
        return elicitation.url is not None
    return elicitation.form is not None or elicitation.url is None  # `{}` means forms


def _filled_in(form: Form, response: types.ElicitResult) -> Reply | None:
    """The values, if they are what was asked for. Some clients send null for what was left empty."""
    given: Any = {name: value for name, value in (response.content or {}).items() if value is not None}
    try:
        values = compile_schema(form.schema, "The form").judge(given)
    except InvalidSchema:
        return CANCELLED
    return None if isinstance(values, InvalidArguments) else Reply(action="accept", content=values)


def _wire(response: BaseModel) -> Reply:
    return Reply(action="accept", content=response.model_dump(by_alias=True, mode="json", exclude_none=True))


def _object(properties: Args, *required: str) -> Args:
    return {"type": "object", "properties": properties, "required": list(required)}
