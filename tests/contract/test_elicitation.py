"""Questions to the user are a tagged union that survives encoding."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.contract.elicitation import (
    CANCELLED,
    Elicitation,
    FormRequest,
    Question,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
    UrlRequest,
)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (FormRequest(message="Name?", schema={"type": "object"}), "form"),
        (UrlRequest(message="Log in.", url="https://example.org"), "visit"),
        (SamplingRequest(messages=(SamplingMessage("user", "Hi"),)), "completion"),
        (RootsRequest(), "roots"),
    ],
)
def test_each_question_is_decoded_by_its_tag(question: Question, kind: str) -> None:
    asked = Elicitation(asked_by="mcp:hub", questions=(question,))
    encoded = msgspec.json.encode(asked)
    assert msgspec.json.decode(encoded)["questions"][0]["kind"] == kind
    assert msgspec.json.decode(encoded, type=Elicitation) == asked


def test_the_reply_without_a_user_is_cancel() -> None:
    assert (CANCELLED.action, CANCELLED.content) == ("cancel", None)
