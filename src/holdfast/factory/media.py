"""The media tools as configured, and the models that they ask.

Imports inside functions keep the transports of models out of the start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.config.config import Config, ModelConfig
from holdfast.config.tool_families import MediaConfig
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.contract.media import Transcriber, Vision
from holdfast.contract.tool import Tool
from holdfast.models.providers import OPERATOR
from holdfast.net.network import Network
from holdfast.net.urls import BadUrl, parse_url
from holdfast.tools.media.analyze import IMAGE_ANALYZE, configured_analysis
from holdfast.tools.media.provider import RemoteEngine
from holdfast.tools.media.service import MediaSettings
from holdfast.tools.media.transcribe import AUDIO_TRANSCRIBE, configured_transcription, with_whisper

if TYPE_CHECKING:
    from holdfast.models.from_config import SecretReader

LOCAL = "local"
VISION_OPTION = "media.vision_model"
TRANSCRIPTION_OPTION = "media.transcription_model"


def media_settings(config: MediaConfig) -> MediaSettings:
    folder = config.whisper_model
    return MediaSettings(
        max_bytes=config.max_bytes,
        max_pixels=config.max_pixels,
        max_seconds=config.max_seconds,
        whisper_model=None if folder is None else Path(folder).expanduser(),
    )


def vision_name(config: Config) -> str | None:
    """The model that looks at images; None if this machine does it alone.

    The model of the conversation does it only if it gets images there, too.
    """
    wanted = config.media.vision_model
    if wanted is None and config.model.name != OPERATOR and _gets_images(config.model):
        wanted = config.model.name
    return None if wanted in (None, LOCAL, OPERATOR) else wanted


def _gets_images(config: ModelConfig) -> bool:
    from holdfast.models.attachments import can_see
    from holdfast.models.from_config import settings_for

    provider, _, model = config.name.partition(":")
    vision = settings_for(config, provider).vision
    return can_see(model) if vision is None else vision


def analysis_tool(config: Config) -> Tool:
    """`image.analyze` for the model that looks at images, or for none."""
    name = vision_name(config)
    if name is None:
        return IMAGE_ANALYZE
    try:
        engine = _engine(config, name, VISION_OPTION)
    except HoldfastError as error:
        if config.media.vision_model is None:
            return IMAGE_ANALYZE  # the conversation reports what is wrong with its model
        return _unusable(IMAGE_ANALYZE, str(error))
    return configured_analysis(engine)


def transcription_tool(config: Config) -> Tool:
    """`audio.transcribe` for the configured provider or model."""
    name = config.media.transcription_model
    if name is None or name == LOCAL:
        return AUDIO_TRANSCRIBE if config.media.whisper_model is None else with_whisper()
    try:
        engine = _engine(config, name, TRANSCRIPTION_OPTION)
    except HoldfastError as error:
        return _unusable(AUDIO_TRANSCRIBE, str(error))
    return configured_transcription(engine)


def _engine(config: Config, name: str, option: str) -> RemoteEngine:
    from holdfast.models.from_config import address_of
    from holdfast.models.transcription import APIS

    api, address = address_of(config.model, name, option)
    if option == TRANSCRIPTION_OPTION and api not in APIS:
        raise ConfigError(
            f"{option} is '{name}', whose API ({api}) has no transcription. Use a provider with OpenAI's API, or set "
            "media.whisper_model."
        )
    try:
        return RemoteEngine(name=name, host=parse_url(address).entry)
    except BadUrl as error:
        raise ConfigError(f"The address of {name} cannot be used: {error}") from None


def _unusable(tool: Tool, reason: str) -> Tool:
    return tool.with_(unavailable=lambda: reason)


def open_vision(config: Config, network: Network, secret: SecretReader) -> Vision:
    """Raises `ConfigError`, or `ModelError` without a key or package."""
    from holdfast.models.from_config import open_endpoint, settings_for
    from holdfast.models.remote_model import RemoteModel
    from holdfast.models.vision import ModelVision

    name = vision_name(config)
    if name is None:
        raise ConfigError("No model looks at images here. Set media.vision_model.")
    endpoint = open_endpoint(config.model, name, VISION_OPTION, secret=secret)
    return ModelVision(RemoteModel(endpoint, network), settings_for(config.model, endpoint.provider))


def open_transcriber(config: Config, network: Network, secret: SecretReader) -> Transcriber:
    """Raises `ConfigError`, or `ModelError` without a key or package."""
    from holdfast.models.from_config import open_endpoint
    from holdfast.models.transcription import ProviderTranscription

    name = config.media.transcription_model
    if name is None:
        raise ConfigError("No provider transcribes here. Set media.transcription_model.")
    endpoint = open_endpoint(config.model, name, TRANSCRIPTION_OPTION, secret=secret)
    return ProviderTranscription(endpoint, network, user_agent=f"holdfast/{__version__}")
