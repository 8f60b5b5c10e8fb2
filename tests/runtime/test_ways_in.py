"""Every way in × every stage: a stage that refuses a call ends it in the same way whichever way it came."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import Config, Context, Decision, Deny, Result, Runtime, State, Tool, Verdict
from holdfast.agent.loop import Loop
from holdfast.config.config import ApprovalConfig, McpConfig, Preset, ToolsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import HoldfastError
from holdfast.models.port import Settings
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.decider import Cap
from holdfast.testing.memory_conversation import MemoryConversation
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.mcp.server.served_runtime import served, text_of
from tests.runtime.support import open_ledger, run, runtime_in
from tests.syntax import nodes_of

ARGS: dict[str, Any] = {"text": "hello"}
REASON = "not on a Monday"


class Stage(NamedTuple):
    """A stage that refuses the call, and the expected result."""

    name: str
    state: State
    failure: Failure
    reason: str
    tool: dict[str, Any] = {}
    """What is different about the tool."""
    config: Config | None = None
    before: Callable[[Any, Any], Any] | None = None
    caps: tuple[Cap, ...] = ()
    known: bool = True


def _refuse(args: Any, ctx: Context) -> Any:
    return Result(False, error=REASON)


def _bad_arguments(args: Any, ctx: Any) -> dict[str, Any]:
    return {"text": 5}


def _denying(args: Any, ctx: Any) -> Deny:
    return Deny(REASON)


def _on_mondays(request: ApprovalRequest) -> Decision | None:
    return Decision(Verdict.DENY, "urn:test:cap:monday", REASON) if request.tool.name == "note" else None


SHORT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 2}},
    "required": ["text"],
    "additionalProperties": False,
}
DENYING = ApprovalConfig(auto_approve=("$mine",), presets={"$mine": Preset(deny=("note",))})

STAGES = [
    Stage("find", State.INVALID, Failure.UNKNOWN_TOOL, "There is no tool 'note'", known=False),
    Stage(
        "policy",
        State.DENIED,
        Failure.NOT_ALLOWED,
        "Tool 'note' is not allowed by tool policy",
        config=Config(tools=ToolsConfig(deny=("note",)), mcp=McpConfig(wait=0.1)),
    ),
    Stage(
        "validate",
        State.INVALID,
        Failure.INVALID_ARGUMENTS,
        "Invalid arguments for 'note'",
        tool={"input_schema": SHORT},
    ),
    Stage(
        "secrets",
        State.DENIED,
        Failure.SECRET_UNAVAILABLE,
        "needs the secret 'github'",
        tool={"required_secret_scopes": ("github",)},
    ),
    Stage("before", State.DENIED, Failure.DENIED_BY_MIDDLEWARE, REASON, before=_denying),
    Stage("re-validate", State.DENIED, Failure.DENIED_BY_MIDDLEWARE, "invalid arguments", before=_bad_arguments),
    Stage(
        "propose",
        State.FAILED,
        Failure.TOOL_ERROR,
        REASON,
        tool={"execute": None, "propose": _refuse, "apply": _refuse},
    ),
    Stage(
        "chain",
        State.DENIED,
        Failure.DENIED_BY_POLICY,
        "'note' is denied by the preset '$mine'",
        config=Config(approval=DENYING, mcp=McpConfig(wait=0.1)),
    ),
    Stage(
        "caps",
        State.DENIED,
        Failure.DENIED_BY_POLICY,
        REASON,
        caps=(Cap("urn:test:cap:monday", _on_mondays),),
    ),
]


class World:
    """A project in which one stage refuses every call, or none does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[Any] = []

    def runtime(self, stage: Stage | None = None, *more: Tool, **options: Any) -> Runtime:
        def execute(args: Any, ctx: Any) -> str:
            self.ran.append(args)
            return "noted"

        note = Tool(
            name="note",
            execute=execute,
            input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        )
        options.setdefault("config", (stage.config if stage else None) or Config(mcp=McpConfig(wait=0.1)))
        tools = [] if stage is not None and not stage.known else [note.with_(**({} if stage is None else stage.tool))]
        runtime = runtime_in(self.folder, *tools, *more, caps=() if stage is None else stage.caps, **options)
        if stage is not None and stage.before is not None:
            runtime.middleware_for("note", before=stage.before)
        return runtime

    def pending(self) -> str:
        """A call that became pending before the stage refused."""
        return run(self.runtime(nobody="pending").call("note", ARGS)).call_id


Way = Callable[[World, Stage], Result]


def called(world: World, stage: Stage) -> Result:
    return run(world.runtime(stage).call("note", ARGS))


def called_in_a_batch(world: World, stage: Stage) -> Result:
    (result,) = run(world.runtime(stage).call_many([("note", ARGS)]))
    return result


def nested_in_another_call(world: World, stage: Stage) -> Result:
    met: list[Result] = []

    async def execute(args: Any, ctx: Context) -> str:
        met.append(await ctx.call("note", ARGS))
        return "done"

    outer = Tool(name="outer", execute=execute, effects=frozenset())
    assert run(world.runtime(stage, outer).call("outer", {})).success
    return met[0]


def judged(world: World, stage: Stage) -> Result:
    """The decision of a dry run, as a result."""
    told = run(world.runtime(stage).judge("note", ARGS))
    assert told.verdict is Verdict.DENY
    return Result(False, error=told.reason, state=stage.state, failure=stage.failure)


def explained(world: World, stage: Stage) -> Result:
    try:
        told = run(world.runtime(stage).explain("note", ARGS)).decision
    except HoldfastError as error:
        assert stage.name == "find"
        return Result(False, error=str(error), state=stage.state, failure=stage.failure)
    assert told.verdict is Verdict.DENY
    reason = told.reason
    if stage.name == "policy":
        reason = stage.reason  # `explain` gives a longer reason
    return Result(False, error=reason, state=stage.state, failure=stage.failure)


def approved_with_other_arguments(world: World, stage: Stage) -> Result:
    """A refused edit leaves the call unchanged and says why."""
    call_id = world.pending()
    runtime = world.runtime(stage)
    with pytest.raises(HoldfastError) as refused:
        run(runtime.approve(call_id, args={"text": "hello again"}))
    (left,) = runtime.pending.list()
    assert left.call.args == ARGS and left.state is State.PENDING
    reason = str(refused.value)
    if stage.name in ("find", "policy"):
        assert "Only the program that has 'note'" in reason
        reason = stage.reason
    if stage.name == "validate":  # the message of an edit does not repeat the call
        assert reason == "text is 'hello again' but must have at most 2 characters"
        reason = stage.reason
    return Result(False, error=reason, state=stage.state, failure=stage.failure)


def approved_in_another_process(world: World, stage: Stage) -> Result:
    call_id = world.pending()
    runtime = world.runtime(stage)
    result = run(runtime.approve(call_id))
    if stage.name == "find":  # the call stays approved until a program has the tool
        assert (result.state, result.failure) == (State.APPROVED, Failure.AWAITING_PROGRAM)
        return Result(False, error=stage.reason, state=stage.state, failure=stage.failure)
    return result


def approved_while_its_program_was_away(world: World, stage: Stage) -> Result:
    call_id = world.pending()
    run(runtime_in(world.folder).approve(call_id))
    results = run(world.runtime(stage).lifecycle.resume_all())
    if stage.name == "find":
        assert results == []
        return Result(False, error=stage.reason, state=stage.state, failure=stage.failure)
    (result,) = results
    return result


def asked_for_by_a_document(world: World, stage: Stage) -> Result:
    runtime = world.runtime(stage, nobody="pending")
    model = ScriptedModel(scripted_reply(use("a1", "note", '{"text": "hello"}')))

    async def session() -> None:
        async with runtime:
            conversation = MemoryConversation()
            conversation.say("go")
            await Loop(runtime, model, conversation, Settings()).advance()

    run(session())
    with open_ledger(world.folder / "state") as ledger:
        (record,) = ledger.calls()
    assert record.result is not None
    return record.result


def asked_for_by_an_mcp_client(world: World, stage: Stage) -> Result:
    runtime = world.runtime(stage)

    async def session() -> str:
        from mcp.shared.exceptions import MCPError

        async with runtime, served(runtime, "auto") as client:
            try:
                return text_of(await client.call_tool("note", ARGS))
            except MCPError as error:
                return str(error)

    said_to_client = run(session())
    with open_ledger(world.folder / "state") as ledger:
        (record,) = ledger.calls()
    assert record.result is not None and (record.result.error or "") in said_to_client
    return record.result


WAYS: list[Way] = [
    called,
    called_in_a_batch,
    nested_in_another_call,
    judged,
    explained,
    approved_with_other_arguments,
    approved_in_another_process,
    approved_while_its_program_was_away,
    asked_for_by_a_document,
    asked_for_by_an_mcp_client,
]


@pytest.mark.spec("X1", "A12", "A22")
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_stage_that_refuses_ends_the_call_in_every_way_in(tmp_path: Path, way: Way, stage: Stage) -> None:
    world = World(tmp_path)
    result = way(world, stage)
    assert (result.state, result.failure) == (stage.state, stage.failure), result.error
    assert stage.reason in (result.error or "")
    assert world.ran == []


@pytest.mark.spec("X1")
def test_the_same_call_runs_if_no_stage_refuses(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert run(world.runtime().approve(world.pending())).success
    assert world.ran == [ARGS]


@pytest.mark.spec("X1")
def test_only_the_pipeline_runs_a_tool() -> None:
    """A way around the pipeline would have to call the executor or a tool's functions."""
    folder = Path(holdfast.__file__).parent
    pipeline = {"runtime/pipeline.py", "runtime/executor.py"}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.module == "holdfast.runtime.executor":
                assert name in pipeline, f"{name} uses the executor"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                runs = isinstance(of, ast.Name) and of.id in ("tool", "plan")
                called = node.func.attr in ("propose", "apply", "execute")
                assert not (runs and called), f"{name} calls tool.{node.func.attr}"


def test_the_matrix_covers_every_stage() -> None:
    """`prepare` records a refusal with the name of its stage; each is a row above."""
    source = (Path(holdfast.__file__).parent / "runtime" / "pipeline.py").read_text()
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_refuse":
            named |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    widens = {"widen"}  # only widened calls reach it: test_approvals_widening
    assert named <= {stage.name for stage in STAGES} | widens
    assert {"validate", "secrets", "before", "propose"} <= named
