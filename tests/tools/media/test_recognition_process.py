"""Text in pictures and speech in recordings, read by real models that are loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.enums import State
from holdfast.tools.media.service import MediaService, MediaSettings
from holdfast.tools.media.workers import Recognition
from holdfast.tools.worker_process import WorkerFailed
from tests.runtime.support import run
from tests.tools.media.media_runtime import call, facts, media_runtime, write
from tests.tools.media.samples import SAID, audio, encoded, image, picture, wav, whisper_folder


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MediaService]:
    """Processes whose models, which take seconds to load, serve all tests."""
    service = MediaService(MediaSettings(whisper_model=whisper_folder(tmp_path_factory.mktemp("whisper"))))
    yield service
    service.close()


@pytest.mark.spec("B11g")
def test_text_in_an_image_is_read_on_this_machine(tmp_path: Path, media: MediaService) -> None:
    runtime = media_runtime(tmp_path, service=media)
    write(runtime, "sign.png", image(text="Gate 42"))
    result = call(runtime, "image.analyze", path="sign.png", prompt="What does it say?")
    found = facts(result)
    assert (found["engine"], found["model"], found["description"], found["text"]) == ("local", None, None, "Gate 42")
    assert result.metadata["untrusted"] == ["media"]
    assert "Text in the image:\n│ Gate 42\n" in result.output
    assert "The prompt was not used" in result.output
    first = media.reader.pid
    empty = call(runtime, "image.analyze", encoded(picture(), "image/webp"), mimeType="image/webp")
    assert facts(empty)["text"] == "" and "No text was found in it." in empty.output
    assert media.reader.pid == first


@pytest.mark.spec("B11h")
def test_speech_is_transcribed_on_this_machine(tmp_path: Path, media: MediaService) -> None:
    runtime = media_runtime(tmp_path, service=media)
    result = call(runtime, "audio.transcribe", audio(), mimeType="audio/ogg", language="en")
    found = facts(result)
    assert (found["engine"], found["language"]) == ("local", "en")
    assert SAID in found["text"] and "lazy dog" in found["text"]
    assert 2.9 < found["seconds"] < 3.1
    assert [part["start"] for part in found["segments"]] == sorted(part["start"] for part in found["segments"])
    assert all(0 <= part["start"] < part["end"] <= 3.1 for part in found["segments"])
    assert result.output.splitlines()[1].startswith("│ [00:00.")
    assert result.metadata["untrusted"] == ["media"]
    silence = call(runtime, "audio.transcribe", wav(bytes(32_000)), mimeType="audio/wav", language="en")
    assert facts(silence)["text"] == "" and "No speech was found in it." in silence.output
    unknown = call(runtime, "audio.transcribe", audio(), mimeType="audio/ogg", language="xx")
    assert unknown.state is State.FAILED and "does not know the language 'xx'" in str(unknown.error)


@pytest.mark.spec("B11h")
@pytest.mark.parametrize("missing", ["config.json", "model.bin", "tokenizer.json"])
def test_a_model_that_lacks_a_file_is_refused_instead_of_downloaded(tmp_path: Path, missing: str) -> None:
    for name in {"config.json", "model.bin", "tokenizer.json"} - {missing}:
        (tmp_path / name).write_text("{}")
    recognition = Recognition("speech", tmp_path)
    with pytest.raises(WorkerFailed, match=f"media.whisper_model .* lacks {missing}"):
        run(recognition.ask({"language": None}, bytes(100), seconds=60, on_progress=lambda share: None))
    recognition.close()
