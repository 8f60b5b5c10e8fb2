"""Fields of Kubernetes objects: times and ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.k8s.objects import Deployment, ObjectList, Pod, format_age, parse_time
from tests.text.strategies import ANY_TEXT

pytestmark = pytest.mark.spec("B10a")
AT = datetime(2026, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60 * 25, "3h25m"),
        (9 * 3600, "9h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (5 * 86_400 + 3600 * 7, "5d7h"),
        (100 * 86_400, "100d"),
        (800 * 86_400, "2y70d"),
        (4000 * 86_400, "10y"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(seconds: int, age: str) -> None:
    assert format_age(AT - timedelta(seconds=seconds), AT) == age


def test_an_age_is_unknown_without_a_time_and_never_negative() -> None:
    assert format_age(None, AT) == "?"
    assert format_age(AT + timedelta(days=3), AT) == "0s"


@given(ANY_TEXT | st.datetimes().map(lambda at: f"{at.isoformat()}Z"))
def test_any_time_of_a_cluster_is_read_or_left_out(text: str) -> None:
    found = parse_time(text)
    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize("body", [b"{}", b'{"items": null}', b'{"items": [{}]}', b'{"kind": "X", "items": [], "y": 1}'])
def test_every_field_of_an_object_can_be_missing(body: bytes) -> None:
    assert len(msgspec.json.decode(body, type=ObjectList[Pod]).items or ()) <= 1
    assert len(msgspec.json.decode(body, type=ObjectList[Deployment]).items or ()) <= 1
