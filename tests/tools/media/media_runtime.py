"""`media_runtime`: a runtime with the media tools, and short ways to call them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast import Config, Result, Runtime, Tool
from holdfast.config.config import ApprovalConfig
from holdfast.tools.media.analyze import IMAGE_ANALYZE
from holdfast.tools.media.send import MEDIA_SEND
from holdfast.tools.media.service import MediaService, MediaSettings
from holdfast.tools.media.transcribe import with_whisper
from tests.runtime.support import run, runtime_in

LOCAL = (MEDIA_SEND, IMAGE_ANALYZE, with_whisper())


def media_runtime(
    folder: Path,
    *tools: Tool,
    service: MediaService | None = None,
    settings: MediaSettings | None = None,
    **options: Any,
) -> Runtime:
    """A runtime whose tools use `service`; without one, a new one that has started no process."""
    config = options.pop("config", Config(approval=ApprovalConfig(auto_approve=("$default",))))
    config = replace(config, tools=replace(config.tools, profile="full"))
    runtime = runtime_in(folder, *(tools or LOCAL), nobody="pending", config=config, **options)
    runtime.services.offer(MediaService, service or MediaService(settings))
    return runtime


def call(runtime: Runtime, name: str, data: bytes | None = None, **args: Any) -> Result:
    """Call a tool with data in base64, or with the arguments as they are."""
    given = {} if data is None else {"data": b64encode(data).decode()}
    return run(runtime.call(name, {**given, **args}), 120)


def facts(result: Result) -> dict[str, Any]:
    """The structured output of a call that succeeded."""
    assert result.success, result.error
    assert isinstance(result.structured, dict)
    return dict(result.structured)


def write(runtime: Runtime, name: str, data: bytes) -> Path:
    """Put a file into the project."""
    assert runtime.workspace.root is not None
    path = runtime.workspace.root / name
    path.write_bytes(data)
    return path
