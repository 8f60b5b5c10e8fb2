"""The approval chain: order, answers, failures and registration."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.rules.chain import Chain, Resolve, ResolveContext, Resolver

from .approval_requests import READ, SHELL, approval_request


def says(answer: object) -> Resolve:
    def resolve(name: str, args: Args, ctx: ResolveContext) -> object:
        return answer

    return resolve


def fails(name: str, args: Args, ctx: ResolveContext) -> str:
    raise ValueError("broken\nresolver")


@pytest.mark.spec("A1")
def test_the_answer_of_the_highest_priority_wins() -> None:
    chain = Chain()
    chain.register("low", says("deny"), priority=10)
    chain.register("high", says("approve"), priority=90)
    judged = chain.judge(approval_request())
    assert judged.decision.verdict is Verdict.APPROVE
    assert judged.decision.source == "high"
    assert [step.source for step in judged.steps] == ["high"]


@pytest.mark.spec("A1")
def test_equal_priorities_are_asked_in_the_order_of_their_names() -> None:
    chain = Chain()
    for name in ("c", "a", "b"):
        chain.register(name, says(None if name == "a" else "ask"))
    judged = chain.judge(approval_request())
    assert [(step.source, step.answer) for step in judged.steps] == [("a", "pass"), ("b", "ask")]


@pytest.mark.spec("A1")
def test_a_call_needs_approval_if_no_resolver_answers() -> None:
    chain = Chain()
    chain.register("shy", says(None))
    assert chain.judge(approval_request()).decision == Decision(
        Verdict.ASK, "default", "No rule covers this call, so it needs your approval."
    )


@pytest.mark.spec("A1")
def test_many_requests_in_a_row_never_become_an_approval() -> None:
    chain = Chain()
    verdicts = {chain.judge(approval_request(call_id=f"call-{number}")).decision.verdict for number in range(1000)}
    assert verdicts == {Verdict.ASK}


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Verdict.APPROVE, Verdict.APPROVE),
        ("approve", Verdict.APPROVE),
        ("ask", Verdict.ASK),
        ("require_approval", Verdict.ASK),
        ("deny", Verdict.DENY),
        (Decision(Verdict.DENY, "somewhere", "because"), Verdict.DENY),
    ],
)
def test_a_resolver_may_return_a_verdict_its_name_or_a_decision(answer: object, verdict: Verdict) -> None:
    chain = Chain()
    chain.register("one", says(answer))
    assert chain.judge(approval_request()).decision.verdict is verdict


@pytest.mark.spec("A10")
def test_a_decision_has_the_reason_and_the_name_of_its_resolver() -> None:
    chain = Chain()
    chain.register("honest", says(Decision(Verdict.DENY, "urn:holdfast:approval:config", "because")))
    assert chain.judge(approval_request()).decision == Decision(Verdict.DENY, "honest", "because")


@pytest.mark.spec("A3")
@pytest.mark.parametrize("answer", [True, False, "yes", 1, "APPROVE", object(), ["approve"]])
def test_an_invalid_answer_is_logged_and_skipped(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain()
    chain.register("odd", says(answer), priority=90)
    chain.register("next", says("deny"))
    with caplog.at_level(logging.WARNING, "holdfast"):
        judged = chain.judge(approval_request())
    assert judged.decision == Decision(Verdict.DENY, "next", "The resolver answered deny.")
    assert judged.steps[0].answer == "failed"
    assert "'odd' failed" in caplog.text


@pytest.mark.spec("A3")
def test_a_resolver_that_raises_is_logged_on_one_line_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain()
    chain.register("broken", fails, priority=90)
    chain.register("next", says("approve"))
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert chain.judge(approval_request()).decision.verdict is Verdict.APPROVE
    (record,) = caplog.records
    assert record.getMessage() == ("The approval resolver 'broken' failed: it raised ValueError: broken resolver.")


@pytest.mark.spec("A3", "A18")
@pytest.mark.parametrize("resolver", [fails, says("nonsense")])
@pytest.mark.parametrize("priority", [90, 10])
def test_with_on_error_ask_a_failed_resolver_turns_an_approval_into_ask(resolver: Any, priority: int) -> None:
    chain = Chain(on_error="ask")
    chain.register("broken", resolver, priority=priority)
    chain.register("other", says("approve"))
    decision = chain.judge(approval_request()).decision
    assert decision.verdict is Verdict.ASK
    assert decision.source == "broken"


@pytest.mark.spec("A3")
def test_a_failed_resolver_does_not_weaken_a_denial() -> None:
    chain = Chain(on_error="ask")
    chain.register("broken", fails, priority=90)
    chain.register("other", says("deny"))
    assert chain.judge(approval_request()).decision == Decision(Verdict.DENY, "other", "The resolver answered deny.")


@pytest.mark.spec("A18")
def test_with_on_error_ask_a_denial_wins_over_an_earlier_approval() -> None:
    chain = Chain(on_error="ask")
    chain.register("first", says("approve"), priority=100)
    chain.register("last", says("deny"), priority=1)
    judged = chain.judge(approval_request())
    assert judged.decision.source == "last"
    assert [step.answer for step in judged.steps] == ["approve", "deny"]


@pytest.mark.spec("A3")
def test_an_exception_that_cannot_be_printed_is_skipped_too() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def hostile(name: str, args: Args, ctx: ResolveContext) -> object:
        raise Hostile

    chain = Chain()
    chain.register("hostile", hostile)
    assert chain.judge(approval_request()).decision.verdict is Verdict.ASK


@pytest.mark.spec("A5a")
def test_a_resolver_sees_the_canonical_name_the_arguments_and_the_call() -> None:
    seen: list[tuple[str, Args, ResolveContext]] = []
    chain = Chain()
    chain.register("spy", lambda name, args, ctx: seen.append((name, args, ctx)))
    asked = approval_request(SHELL, {"command": "ls"}, name_used="bash", document="/srv/project/notes.chat")
    chain.judge(asked)
    name, args, ctx = seen[0]
    assert (name, args) == ("shell.exec", {"command": "ls"})
    assert (ctx.call_id, ctx.tool_id, ctx.names) == ("call-1", "call-1", ("shell.exec", "bash"))
    assert (ctx.caller, ctx.cwd, ctx.document, ctx.bufnr) == (asked.caller, asked.cwd, asked.document, None)


@pytest.mark.spec("A12")
def test_a_resolver_cannot_change_the_arguments_that_are_judged_or_run() -> None:
    def rewrite(name: str, args: Args, ctx: ResolveContext) -> None:
        args["command"] = "rm -rf /"
        inner = ctx.request.args["options"]
        assert isinstance(inner, dict)
        inner["force"] = True

    seen: list[Args] = []
    chain = Chain()
    chain.register("a", rewrite)
    chain.register("b", lambda name, args, ctx: seen.append(args))
    asked = approval_request(SHELL, {"command": "ls", "options": {"force": False}})
    chain.judge(asked)
    assert asked.args == seen[0] == {"command": "ls", "options": {"force": False}}


@pytest.mark.spec("A4")
def test_registering_a_name_again_replaces_the_resolver() -> None:
    chain = Chain()
    chain.register("one", says("approve"))
    chain.register("one", says("deny"), priority=7, description="the second")
    assert chain.count() == 1
    entry = chain.get("one")
    assert entry is not None
    assert (entry.priority, entry.description) == (7, "the second")
    assert chain.judge(approval_request()).decision == Decision(Verdict.DENY, "one", "the second")


@pytest.mark.spec("A4")
def test_unregister_returns_whether_a_resolver_was_removed() -> None:
    chain = Chain()
    chain.register("one", says("approve"))
    assert chain.unregister("one") is True
    assert chain.unregister("one") is False
    assert (chain.has("one"), chain.get("one"), chain.count()) == (False, None, 0)


@pytest.mark.spec("A4")
def test_a_handle_removes_its_own_registration_and_not_the_one_that_replaced_it() -> None:
    chain = Chain()
    first = chain.register("one", says("approve"))
    second = chain.register("one", says("deny"))
    assert first.remove() is False
    assert chain.has("one")
    assert second.remove() is True
    assert second.remove() is False
    assert not chain.has("one")


@pytest.mark.spec("A4")
def test_get_all_returns_a_sorted_copy() -> None:
    chain = Chain()
    chain.register("b", says(None))
    chain.register("a", says(None))
    chain.register("z", says(None), priority=99)
    listed = chain.get_all()
    assert [entry.name for entry in listed] == ["z", "a", "b"]
    listed.clear()
    assert chain.count() == len(chain.get_all()) == 3


@pytest.mark.spec("A4")
def test_a_resolver_can_be_registered_as_function_mapping_or_resolver() -> None:
    chain = Chain()
    chain.register("my_plugin:function", says("deny"))
    chain.register("my_plugin:mapping", {"resolve": says("deny"), "priority": 60, "description": "a mapping"})
    chain.register("my_plugin:ready", Resolver("other name", says("deny"), 70, "ready", static=True))
    assert [(entry.name, entry.priority, entry.static) for entry in chain.get_all()] == [
        ("my_plugin:ready", 70, True),
        ("my_plugin:mapping", 60, False),
        ("my_plugin:function", 50, False),
    ]


@pytest.mark.spec("A2", "A4")
def test_only_module_paths_and_urns_may_contain_dots() -> None:
    chain = Chain()
    with pytest.raises(ConfigError, match="dots are for module paths"):
        chain.register("my_pkg.policy", says(None))
    with pytest.raises(ConfigError):
        chain.register("", says(None))
    chain.register("urn:acme:policy.v2", says(None))
    assert chain.has("urn:acme:policy.v2")


@pytest.mark.spec("A2")
def test_the_seeds_names_of_built_in_resolvers_are_accepted() -> None:
    chain = Chain()
    chain.register("urn:holdfast:approval:config", says("deny"))
    found = chain.get("urn:flemma:approval:config")
    assert found is not None
    assert found.name == "urn:holdfast:approval:config"
    chain.register("urn:flemma:approval:config", says("approve"))
    assert chain.count() == 1
    assert chain.unregister("urn:flemma:approval:config") is True


@pytest.mark.spec("A4")
@pytest.mark.parametrize(
    "resolver", [{"resolve": "not callable"}, {"priority": 3}, {"resolve": says(None), "prioritty": 3}, 3,
                 {"resolve": says(None), "priority": "high"}],
)  # fmt: skip
def test_an_invalid_resolver_is_refused_and_changes_nothing(resolver: Any) -> None:
    chain = Chain()
    with pytest.raises(ConfigError):
        chain.register("bad", resolver)
    assert (chain.count(), chain.revision) == (0, 0)


@pytest.mark.spec("A4")
def test_an_async_resolver_is_refused_and_a_coroutine_answer_is_invalid() -> None:
    async def late(name: str, args: Args, ctx: ResolveContext) -> str:
        return "approve"

    chain = Chain()
    with pytest.raises(ConfigError, match="synchronous function"):
        chain.register("late", late)

    def hidden(name: str, args: Args, ctx: ResolveContext) -> object:
        return late(name, args, ctx)

    chain.register("hidden", hidden)
    assert chain.judge(approval_request()).decision.verdict is Verdict.ASK


@pytest.mark.spec("A4")
def test_every_change_raises_the_revision() -> None:
    chain = Chain()
    revisions = [chain.revision]
    handle = chain.register("one", says(None))
    revisions.append(chain.revision)
    chain.register("two", says(None))
    revisions.append(chain.revision)
    handle.remove()
    revisions.append(chain.revision)
    chain.unregister("nobody")
    assert revisions == [0, 1, 2, 3]
    assert chain.revision == 3


@pytest.mark.spec("A1")
def test_a_resolver_that_changes_the_chain_does_not_affect_the_current_decision() -> None:
    chain = Chain()

    def meddle(name: str, args: Args, ctx: ResolveContext) -> None:
        chain.register("intruder", says("approve"), priority=40)

    chain.register("meddler", meddle)
    assert chain.judge(approval_request()).decision.source == "default"
    assert chain.judge(approval_request()).decision.source == "intruder"


@pytest.mark.spec("A1")
def test_a_static_resolver_gets_the_tool_but_nothing_of_the_call() -> None:
    seen: list[ResolveContext] = []
    chain = Chain()
    chain.register("static", Resolver("static", lambda name, args, ctx: seen.append(ctx), static=True))
    chain.judge(approval_request(READ, {"path": "secret"}))
    assert seen[0].request.args == {}
    assert seen[0].call_id == ""
    assert seen[0].request.tool is READ


@pytest.mark.spec("A1")
def test_a_static_decision_is_discarded_when_the_chain_changes() -> None:
    chain = Chain()
    chain.register("one", Resolver("one", says("approve"), static=True))
    first = chain.static_decision(READ)
    assert first is not None
    assert first.verdict is Verdict.APPROVE
    chain.register("two", Resolver("two", says("deny"), 99, static=True))
    second = chain.static_decision(READ)
    assert second is not None
    assert second.verdict is Verdict.DENY
    chain.register("three", says(None), priority=100)
    assert chain.static_decision(READ) is None


@pytest.mark.spec("A1")
def test_a_static_decision_is_computed_once() -> None:
    asked: list[str] = []

    def resolve(name: str, args: Args, ctx: ResolveContext) -> str:
        asked.append(name)
        return "approve"

    chain = Chain()
    chain.register("one", Resolver("one", resolve, static=True))
    for _ in range(3):
        chain.static_decision(READ)
    assert asked == ["file.read"]


@pytest.mark.spec("A1")
def test_a_resolver_is_skipped_for_tools_it_does_not_apply_to() -> None:
    chain = Chain()
    chain.add(Resolver("shell only", says("deny"), applies=lambda about: about is SHELL))
    assert chain.judge(approval_request(READ)).decision.source == "default"
    assert chain.judge(approval_request(SHELL)).decision.source == "shell only"
    assert chain.static_decision(READ) == chain.judge(approval_request(READ)).decision
    assert chain.static_decision(SHELL) is None


@pytest.mark.spec("A3")
def test_a_resolver_whose_applies_raises_is_asked() -> None:
    def applies(about: Tool) -> bool:
        raise LookupError

    chain = Chain()
    chain.add(Resolver("unsure", says("deny"), applies=applies))
    assert chain.static_decision(READ) is None
    assert chain.judge(approval_request(READ)).decision.source == "unsure"
