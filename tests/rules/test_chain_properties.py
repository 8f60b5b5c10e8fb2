"""Properties of the approval chain."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.enums import Verdict
from holdfast.rules.chain import Chain, OnError, Resolver

from .approval_requests import READ, approval_request

ANSWERS = ["approve", "ask", "deny", None, "junk", "raise"]


def make_resolver(
    name: str, answer: str | None, priority: int, *, static: bool = False, applies: bool = True
) -> Resolver:
    def resolve(*_: Any) -> str | None:
        if answer == "raise":
            raise RuntimeError(name)
        return answer

    return Resolver(name, resolve, priority, static=static, applies=lambda tool: applies)


def chain_of(on_error: OnError, *resolvers: Resolver) -> Chain:
    chain = Chain(on_error=on_error)
    for one in resolvers:
        chain.add(one)
    return chain


def numbered(items: list[tuple[str | None, int, bool, bool]]) -> list[Resolver]:
    return [
        make_resolver(f"r{place}", answer, priority, static=static, applies=applies)
        for place, (answer, priority, static, applies) in enumerate(items)
    ]


resolvers = st.lists(
    st.tuples(st.sampled_from(ANSWERS), st.integers(0, 3), st.booleans(), st.booleans()), max_size=6
).map(numbered)


@pytest.mark.spec("A18")
@pytest.mark.parametrize("answers", list(permutations(["approve", "ask", None, "deny"])))
def test_a_denial_wins_in_every_order_of_resolvers(answers: tuple[str | None, ...]) -> None:
    chain = chain_of("ask", *(make_resolver(f"r{place}", answer, place) for place, answer in enumerate(answers)))
    assert chain.judge(approval_request()).decision.verdict is Verdict.DENY


@pytest.mark.spec("A3", "A18")
@pytest.mark.parametrize("answers", list(permutations(["approve", "raise", None, "junk"])))
def test_a_failure_never_becomes_an_approval_in_any_order(answers: tuple[str | None, ...]) -> None:
    chain = chain_of("ask", *(make_resolver(f"r{place}", answer, place) for place, answer in enumerate(answers)))
    assert chain.judge(approval_request()).decision.verdict is Verdict.ASK


@pytest.mark.spec("A1")
@given(resolvers, st.randoms(use_true_random=False))
def test_the_order_of_registration_does_not_matter(given_resolvers: list[Resolver], random: Random) -> None:
    shuffled = list(given_resolvers)
    random.shuffle(shuffled)
    for on_error in ("skip", "ask"):
        assert chain_of(on_error, *given_resolvers).judge(approval_request()) == chain_of(on_error, *shuffled).judge(
            approval_request()
        )


@pytest.mark.spec("A1")
@given(resolvers)
def test_the_first_verdict_decides(given_resolvers: list[Resolver]) -> None:
    decision = chain_of("skip", *given_resolvers).judge(approval_request()).decision
    ordered = sorted(given_resolvers, key=lambda one: (-one.priority, one.name))
    words = {one.name: _word(one) for one in ordered}
    expected = next(((name, word) for name, word in words.items() if word in ("approve", "ask", "deny")), None)
    assert (decision.source, decision.verdict) == (expected or ("default", "ask"))


@pytest.mark.spec("A1")
@given(resolvers, st.sampled_from(["skip", "ask"]))
def test_a_static_decision_is_what_the_chain_would_decide(given_resolvers: list[Resolver], on_error: OnError) -> None:
    chain = chain_of(on_error, *given_resolvers)
    static = chain.static_decision(approval_request().tool)
    if static is not None:
        assert static == chain.judge(approval_request(args={"path": "x"})).decision
    if all(one.static and _word(one) not in ("raise", "junk") for one in given_resolvers):
        assert static is not None


@pytest.mark.spec("A3")
@given(resolvers)
def test_on_error_ask_is_never_looser_than_skip(given_resolvers: list[Resolver]) -> None:
    strict = chain_of("ask", *given_resolvers).judge(approval_request()).decision.verdict
    loose = chain_of("skip", *given_resolvers).judge(approval_request()).decision.verdict
    assert strict.strictness >= loose.strictness


def _word(one: Resolver) -> object:
    if not one.applies(READ):
        return None
    try:
        return one.resolve("", {}, None)  # pyright: ignore[reportArgumentType]
    except RuntimeError:
        return "raise"
