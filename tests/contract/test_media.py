"""The protocols of media services, and that the services of providers keep to them."""

from __future__ import annotations

from inspect import iscoroutinefunction, signature

import pytest

from holdfast.contract.media import Transcriber, Vision
from holdfast.models.transcription import ProviderTranscription
from holdfast.models.vision import ModelVision


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (Vision.describe, ModelVision.describe),
        (Transcriber.transcribe, ProviderTranscription.transcribe),
    ],
)
def test_a_service_takes_what_its_protocol_says(wanted: object, given: object) -> None:
    assert callable(wanted) and callable(given)
    assert iscoroutinefunction(given)
    assert list(signature(given).parameters.values()) == list(signature(wanted).parameters.values())
