"""Properties of exact grants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.json import Args, canonical_json
from holdfast.rules.grants import matches, narrow_grant
from holdfast.store.ledger import Grant

from .approval_requests import SHELL, approval_request

numbers = st.integers(-3, 3) | st.floats(-3, 3).map(lambda number: round(number, 1))
scalars = st.none() | st.booleans() | numbers | st.text(max_size=3)
names = st.sampled_from(["a", "b"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner))
arguments = st.dictionaries(st.sampled_from(["command", "cwd", "label"]), values, max_size=3)


@pytest.mark.spec("A12")
@given(arguments, arguments)
def test_an_exact_grant_covers_a_call_if_and_only_if_the_arguments_are_the_same(allowed: Args, asked: Args) -> None:
    spec = narrow_grant(approval_request(SHELL, allowed), "user", "ann")
    grant = Grant(id="g", tool=spec.tool, pattern=spec.pattern, scope=spec.scope, by=spec.by, created=0.0)
    assert matches(grant, approval_request(SHELL, dict(allowed)))
    same = canonical_json(_counting(allowed)) == canonical_json(_counting(asked))
    assert matches(grant, approval_request(SHELL, asked)) is same


def _counting(args: Args) -> Args:
    return {name: value for name, value in args.items() if name != "label"}
