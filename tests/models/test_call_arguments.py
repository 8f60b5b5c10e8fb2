"""Arguments and ids of calls are made valid for a request, in bounded time."""

from __future__ import annotations

import pytest

from holdfast.models.call_arguments import INVALID_JSON_KEY, CallIds, arguments_text, encode_arguments, parse_arguments
from tests.quick import quickly


@pytest.mark.spec("M1")
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("wanted", ["call_1", "x" * 60 + "{:04}", "a-{}"])
def test_thousands_of_calls_with_the_same_id_get_ids_in_bounded_time(plain: bool, wanted: str) -> None:
    ids = CallIds(plain=plain)
    with quickly():
        given = [ids.assign(wanted.format(number % 4_000)) for number in range(16_000)]
        given += [ids.assign("a") for _ in range(4_000)]
    assert len(set(given)) == len(given) and given[0] == wanted.format(0)
    assert not plain or max(map(len, given)) <= 64


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {INVALID_JSON_KEY: "[1]"}),
        ("{broken", {INVALID_JSON_KEY: "{broken"}),
        ('{"a": NaN}', {INVALID_JSON_KEY: '{"a": NaN}'}),
        ("\ud83d", {INVALID_JSON_KEY: "\N{REPLACEMENT CHARACTER}"}),
    ],
)
def test_arguments_are_always_an_object_that_can_be_encoded(text: str, parsed: dict[str, object]) -> None:
    assert parse_arguments(text) == parsed


@pytest.mark.spec("M1")
def test_arguments_of_a_model_are_stored_as_json_text() -> None:
    assert [arguments_text(given) for given in (None, " ", {"a": "ü"}, "{broken")] == [
        "{}",
        "{}",
        '{"a": "ü"}',
        "{broken",
    ]


@pytest.mark.spec("M3")
def test_parsed_arguments_are_encoded_also_with_a_lone_surrogate() -> None:
    assert encode_arguments({"a": ["ü", 1]}) == '{"a":["ü",1]}'
    assert encode_arguments({"a": "\udcff"}) == '{"a": "\\udcff"}'
