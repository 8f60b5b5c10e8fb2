"""The rules of a project: in words, by list entry and by layer, what they say about a call, the grants, the tools."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.config.config import SHELL_READONLY, ApprovalConfig, CommandRule
from holdfast.config.layers import LayerReport
from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.contract.json import Args, parse_json
from holdfast.contract.tool import Tool
from holdfast.json_output import PolicyOutput
from holdfast.rules.chain import source_name
from holdfast.rules.decider import DecisionExplanation
from holdfast.rules.grant_text import FULL_WIDTH, describe_grant
from holdfast.rules.policy_text import policy_toml, trust_note
from holdfast.rules.resolvers import PRESET_PREFIX, ListPolicy
from holdfast.runtime.runtime import Runtime
from holdfast.serve import html
from holdfast.serve.actions import Actions
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.proposal_view import decision_html
from holdfast.serve.requests import BadRequest, person_of, read_form, require_answer
from holdfast.store.entries import Grant
from holdfast.text.pretty_json import pretty_json

_SOURCES_SECONDS: Final = 10.0
"""How long a tool that is not known yet is waited for."""
_MAX_ARGS: Final = 100_000
"""Characters of the arguments in the form; longer ones of a recorded call are explained, but not shown."""
_VERDICTS: Final = {
    Verdict.APPROVE: "It would run without asking.",
    Verdict.ASK: "A person would be asked.",
    Verdict.DENY: "It would be denied.",
}


class ListEntry(Struct, frozen=True, kw_only=True):
    """An entry of `approval.auto_approve`, and what it approves here."""

    name: str
    tools: list[str]
    note: str = ""


class GrantView(Struct, frozen=True, kw_only=True):
    grant: Grant
    words: str
    """The calls that it covers, escaped."""
    expired: bool


class ToolView(Struct, frozen=True, kw_only=True):
    tool: Tool
    policy: Decision
    unavailable: str

    @property
    def effects(self) -> str:
        return "unknown" if self.tool.effects is None else ", ".join(sorted(self.tool.effects)) or "none"

    @property
    def summary(self) -> str:
        return self.tool.description.strip().partition("\n")[0]


class Question(Struct, frozen=True, kw_only=True):
    """The hypothetical call of the form, and what would be decided about it."""

    tool: str = ""
    args: str = ""
    note: str = ""
    problem: str = ""
    verdict: str = ""
    words: str = ""
    decision: Markup = Markup("")


class PolicyPage:
    """The page of the rules."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    def routes(self) -> list[Route]:
        return [
            Route("/policy", self.page),
            Route("/policy/{project}/grants/{grant_id}/revoke", self.revoke, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        project = self._chosen(request.query_params.get("project", ""))
        runtime = await project.runtime()
        question = await self._question(request, project, runtime)
        config = project.project.loaded.config
        return html.page(
            request,
            "policy.html",
            status=422 if question.problem else 200,
            project=project,
            projects=[(other.key, other.name) for other in self._projects],
            question=question,
            rules=PolicyOutput.of(runtime, project.project.loaded.layers),
            entries=list_entries(config.approval, runtime.visible()),
            commands=[(rule, command_words(rule)) for rule in config.approval.commands],
            toml="\n".join(policy_toml(config)).strip(),
            layers=[(layer, _layer_note(layer)) for layer in project.project.loaded.layers],
            notices=project.project.loaded.notices,
            grants=await asyncio.to_thread(read_grants, project),
            tools=list_tools(runtime),
            source_name=source_name,
            may_answer=person_of(request).may_answer,
        )

    async def revoke(self, request: Request) -> Response:
        person = require_answer(request)
        await read_form(request)
        project = self._projects.get(request.path_params["project"])
        await Actions(self._projects, person).revoke(project.key, request.path_params["grant_id"])
        return RedirectResponse(f"/policy?project={project.key}#grants", 303)

    async def _question(self, request: Request, project: ServedProject, runtime: Runtime) -> Question:
        """Explain the call of the form, or a recorded one (`call=ID`)."""
        given = request.query_params
        tool, text, caller, note = given.get("tool", "").strip(), given.get("args", "").strip(), None, ""
        if not tool.isprintable():
            return Question(args=text, problem="The name of a tool has only printable characters.")
        try:
            if call_id := given.get("call", ""):
                call = (await asyncio.to_thread(project.ledger.call, call_id)).call
                tool, args, caller, note = call.tool, call.original or call.args, call.caller, _note(call)
                text = pretty_json(args)
            else:
                args = _arguments(text)
            text = text if len(text) <= _MAX_ARGS else ""
            if not tool:
                return Question(args=text)
            found = await _explained(runtime, tool, args, caller)
        except UnknownCall:
            raise
        except HoldfastError as error:
            return Question(tool=tool, args=text, note=note, problem=str(error))
        if found.decision.source == "validate":
            return Question(tool=tool, args=text, note=note, problem=found.decision.reason)
        return Question(
            tool=tool,
            args=text,
            note=note,
            verdict=found.decision.verdict,
            words=_VERDICTS[found.decision.verdict],
            decision=decision_html(found.decision, found),
        )

    def _chosen(self, key: str) -> ServedProject:
        found = self._projects.get(key) if key else next(iter(self._projects), None)
        if found is None:
            raise BadRequest("No project is served here yet. Make a call in one.")
        return found


def _note(call: Call) -> str:
    note = f"Call {call.id}, by the rules of now."
    return note if call.caller.document is None else f"{note} The rules of its document are not applied here."


def _arguments(text: str) -> Args | None:
    if not text:
        return None
    args = parse_json(text)
    if not isinstance(args, dict):
        raise BadRequest('The arguments must be a JSON object, such as {"path": "notes.md"}.')
    return args


async def _explained(runtime: Runtime, tool: str, args: Args | None, caller: Caller | None) -> DecisionExplanation:
    if runtime.registry.find(tool) is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SOURCES_SECONDS):
                await runtime.pipeline.wait_for_sources()
    return await runtime.explain(tool, args, caller=caller)


def list_entries(approval: ApprovalConfig, tools: list[Tool]) -> list[ListEntry]:
    """Say of each entry of `auto_approve`, and of each preset of the configuration, which tools it approves."""
    if isinstance(approval.auto_approve, str):
        return [ListEntry(name=approval.auto_approve, tools=[], note="this function decides")]
    unused = [name for name in approval.presets if name not in approval.auto_approve]
    return [
        *(_entry(name, approval, tools) for name in approval.auto_approve),
        *(_entry(name, approval, tools, note="defined, but auto_approve does not name it") for name in unused),
    ]


def _entry(name: str, approval: ApprovalConfig, tools: list[Tool], note: str = "") -> ListEntry:
    names = ListPolicy((name,), presets=approval.presets, excluded=approval.excluded)
    denied = [tool.name for tool in tools if names.denies(tool)]
    approved = [tool.name for tool in tools if names.approves(tool)]
    notes = [note] if note else []
    if name == SHELL_READONLY and name not in approval.presets:
        notes.append("shell commands that only read, judged part by part")
    elif not approved and not denied and name.startswith(PRESET_PREFIX):
        notes.append("approves no tool here")
    if denied:
        notes.append(f"denies {', '.join(denied)}")
    return ListEntry(name=name, tools=approved, note="; ".join(notes))


def command_words(rule: CommandRule) -> str:
    """Say what a rule about shell commands lets them do beyond its words."""
    parts = [f"options {' '.join(rule.options)}"] if rule.options else []
    if rule.rule.endswith("*"):
        parts.append("existing files of the project" if rule.operands == "files" else "operands of a known reader")
    hosts = ("the network",) if rule.network == "on" else rule.network
    reaches = (("reaches", hosts), ("reads", rule.read), ("changes", rule.write))
    parts += [f"{does} {', '.join(names)}" for does, names in reaches if names]
    return "; ".join(parts)


def _layer_note(layer: LayerReport) -> str:
    return trust_note(layer) or ("" if layer.applied else "changes nothing")


def read_grants(project: ServedProject) -> list[GrantView]:
    """The grants of the project and the user, newest first. Blocks."""
    with project.grants() as store:
        found = store.list(every=True)
    now = time.time()
    views = [
        GrantView(
            grant=grant,
            words=describe_grant(grant.tool, grant.pattern, FULL_WIDTH),
            expired=grant.expires is not None and grant.expires <= now,
        )
        for grant in found
    ]
    return sorted(views, key=lambda view: view.grant.created, reverse=True)


def list_tools(runtime: Runtime) -> list[ToolView]:
    """The tools that can be called here, and those for which something is missing."""
    policy = runtime.access.policy.compile(runtime.caller)
    missing = runtime.access.unavailable(runtime.caller)
    found = [ToolView(tool=tool, policy=policy.decide(tool), unavailable="") for tool in runtime.visible()]
    return [*found, *(ToolView(tool=tool, policy=policy.decide(tool), unavailable=why) for tool, why in missing)]
