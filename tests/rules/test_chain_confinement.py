"""A grant is bound to the confinement of its call: a stricter one is accepted, a weaker one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, to_builtins
from msgspec.structs import replace

from holdfast.contract.json import Args
from holdfast.rules.chain import UNCONFINED, Confinement
from holdfast.rules.grants import matches, narrow_grant
from holdfast.store.ledger import Grant
from tests.rules.approval_requests import EDIT, READ, SHELL, WRITE, approval_request

CONTAINED = Confinement(
    backend="bubblewrap",
    guarantees=("files", "network", "processes"),
    network=("a.example", "b.example"),
    writable=("/srv/project", "/srv/cache"),
    hidden=("/home/ann/.ssh", "/home/ann/.aws"),
    patterns=("/srv/project: $secrets", "/srv/project: *.bak"),
    protected=("secrets/**",),
    environment=("PATH", "LANG"),
    settings="a",
)
LESS: dict[str, dict[str, Any]] = {
    "no sandbox at all": {"backend": None, "guarantees": ()},
    "a weaker backend": {"backend": "landlock", "guarantees": ("files",)},
    "the network": {"network": "on"},
    "one more host": {"network": ("a.example", "b.example", "evil.example")},
    "another host": {"network": ("evil.example",)},
    "one more writable folder": {"writable": ("/srv/project", "/srv/cache", "/home/ann")},
    "a wider writable folder": {"writable": ("/srv",)},
    "a neighbour of a writable folder": {"writable": ("/srv/project2",)},
    "the root as writable": {"writable": ("/",)},
    "a pattern that is gone": {"patterns": ("/srv/project: $secrets",)},
    "an exception": {"patterns": (*CONTAINED.patterns, "/srv/project: !a.bak")},
    "a hidden folder that is not hidden any more": {"hidden": ("/home/ann/.ssh",)},
    "only a part of a hidden folder": {"hidden": ("/home/ann/.ssh/keys", "/home/ann/.aws")},
    "a protected pattern less": {"protected": ()},
    "one more variable": {"environment": ("PATH", "LANG", "TOKEN")},
    "another shell, or another value of a variable": {"settings": "b"},
    "a shell an earlier version did not keep": {"settings": None},
}
MORE: dict[str, dict[str, Any]] = {
    "the same": {},
    "a stronger backend": {"backend": "vm", "guarantees": ("files", "kernel", "network", "processes")},
    "no network": {"network": "off"},
    "a host less": {"network": ("a.example",)},
    "a writable folder less": {"writable": ("/srv/project",)},
    "a narrower writable folder": {"writable": ("/srv/project/out",)},
    "nothing writable": {"writable": ()},
    "more that is hidden": {"hidden": ("/home/ann", "/root")},
    "more that is protected": {"protected": ("secrets/**", "*.key")},
    "a variable less": {"environment": ("PATH",)},
}


def _grant(asked: Any, width: Any = "exact") -> Grant:
    spec = narrow_grant(asked, "user", "ann", width=width)
    return Grant(id="g1", tool=spec.tool, pattern=spec.pattern, scope="user", by="ann", created=1.0)


def _under(confinement: Confinement) -> dict[str, Any]:
    return {"confinement": lambda: confinement}


@pytest.mark.spec("A12a")
@pytest.mark.parametrize("what", LESS)
def test_a_grant_covers_nothing_under_a_weaker_confinement(what: str) -> None:
    args: Args = {"command": "make test"}
    grant = _grant(approval_request(SHELL, args, **_under(CONTAINED)))
    assert matches(grant, approval_request(SHELL, args, **_under(CONTAINED)))
    assert not matches(grant, approval_request(SHELL, args, **_under(replace(CONTAINED, **LESS[what]))))


@pytest.mark.spec("A12a")
@pytest.mark.parametrize("what", MORE)
def test_a_grant_applies_under_the_same_or_a_stricter_confinement(what: str) -> None:
    args: Args = {"command": "make test"}
    grant = _grant(approval_request(SHELL, args, **_under(CONTAINED)))
    assert matches(grant, approval_request(SHELL, args, **_under(replace(CONTAINED, **MORE[what]))))


@pytest.mark.spec("A12a")
@pytest.mark.parametrize(
    ("about", "args", "width"),
    [
        (SHELL, {"command": "git log"}, "command"),
        (WRITE, {"path": "a.txt", "content": "x"}, "exact"),
        (EDIT, {"path": "a.txt"}, "folder"),
        (READ, {"path": "a.txt"}, "tool"),
    ],
)
def test_every_width_of_a_grant_is_bound_to_its_confinement(about: Any, args: Any, width: Any) -> None:
    place: dict[str, Any] = {"root": Path.cwd(), "cwd": str(Path.cwd())} if about is SHELL else {}
    asked = approval_request(about, args, **place, **_under(CONTAINED))
    grant = _grant(asked, width)
    assert matches(grant, asked)
    assert not matches(grant, approval_request(about, args, **place, **_under(UNCONFINED)))


@pytest.mark.spec("A12a")
def test_a_grant_made_without_a_sandbox_applies_in_one() -> None:
    args: Args = {"command": "make test"}
    grant = _grant(approval_request(SHELL, args))
    for confinement in (UNCONFINED, replace(CONTAINED, environment=(), settings=None)):
        assert matches(grant, approval_request(SHELL, args, **_under(confinement)))


@pytest.mark.spec("A12a")
def test_a_grant_of_an_earlier_version_without_a_confinement_covers_nothing() -> None:
    args: Args = {"command": "make test"}
    grant = _grant(approval_request(SHELL, args))
    older = replace(grant, pattern={name: value for name, value in grant.pattern.items() if name != "given_under"})
    assert not matches(older, approval_request(SHELL, args))
    assert not matches(older, approval_request(SHELL, args, **_under(CONTAINED)))


paths = st.sampled_from(["/", "/a", "/a/b", "/a/bc", "/a/b/c", "/d"])
confinements = st.builds(
    Confinement,
    guarantees=st.lists(st.sampled_from("xyz"), unique=True).map(tuple),
    network=st.one_of(st.sampled_from(["on", "off"]), st.lists(st.sampled_from("pqr"), unique=True).map(tuple)),
    writable=st.lists(paths, unique=True).map(tuple),
    hidden=st.lists(paths, unique=True).map(tuple),
    protected=st.lists(st.sampled_from("mn"), unique=True).map(tuple),
    environment=st.lists(st.sampled_from("uvw"), unique=True).map(tuple),
    settings=st.sampled_from(["a", "b", None]),
)


@pytest.mark.spec("A12a")
@given(confinements, confinements, confinements)
def test_confinement_strictness_is_a_partial_order(one: Confinement, two: Confinement, three: Confinement) -> None:
    assert one.is_within(one)
    if one.is_within(two) and two.is_within(three):
        assert one.is_within(three)
    assert convert(to_builtins(one), Confinement) == one
