"""Widenings: union, description and kinds."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Widening
from holdfast.contract.widening import merge_widenings

SOME = Widening(hosts=("b.example", "a.example"), read=("/data",))
MORE = Widening(hosts=("a.example",), write=("/out",), network=True, outside=True)


def test_the_union_has_everything_once_and_sorted() -> None:
    both = Widening(hosts=("a.example", "b.example"), network=True, read=("/data",), write=("/out",), outside=True)
    assert SOME | MORE == MORE | SOME == merge_widenings([None, SOME, MORE, None]) == both


def test_a_widening_that_grants_nothing_is_false() -> None:
    assert not merge_widenings([]) and not merge_widenings([None])
    assert SOME and MORE


def test_the_description_names_every_kind_of_access() -> None:
    assert SOME.description == "reaches b.example; reaches a.example; reads /data"
    assert MORE.description == "outside the sandbox; reaches every host; changes /out"
    assert MORE.kinds == ("hosts", "network", "write", "outside")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"root": true}', type=Widening)
