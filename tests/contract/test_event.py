"""Events are a tagged union that survives encoding."""

from __future__ import annotations

from typing import get_args

import msgspec

from holdfast.contract.event import ElicitationStarted, Event, Output, Progress, ServerLogged, WarningRaised


def test_every_event_has_its_own_tag() -> None:
    kinds = get_args(Event)
    tags = {kind.__struct_config__.tag for kind in kinds}
    assert len(tags) == len(kinds)
    assert {kind.__struct_config__.tag_field for kind in kinds} == {"event"}


def test_the_stored_tags_do_not_follow_the_class_names() -> None:
    kinds = (ServerLogged, WarningRaised, ElicitationStarted)
    assert [kind.__struct_config__.tag for kind in kinds] == ["logged", "warned", "elicited"]


def test_an_event_is_decoded_as_the_same_type() -> None:
    for event in (Output("a", "text", "a"), Progress("a", "half", 1.0, 2.0), ServerLogged("", "hub", "info", "up")):
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
