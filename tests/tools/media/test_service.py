"""What the media tools of one runtime share."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.tools.media.replies import MAX_SIDE
from holdfast.tools.media.service import MediaService, MediaSettings
from holdfast.tools.worker_process import WorkerFailed
from tests.runtime.support import run
from tests.tools.media.samples import encoded, picture, wav


@pytest.mark.spec("B11e")
def test_closing_the_service_ends_its_processes(tmp_path: Path) -> None:
    service = MediaService(MediaSettings(whisper_model=tmp_path))

    async def main() -> int | None:
        with pytest.raises(WorkerFailed, match="lacks"):
            await service.listen(b"", None, seconds=60, on_progress=lambda share: None)
        return service.listener.pid

    pid = run(main())
    assert pid is not None and Path(f"/proc/{pid}").exists()
    service.close()
    assert service.listener.pid is None
    assert not Path(f"/proc/{pid}").exists()


def test_limits_are_those_of_the_settings() -> None:
    service = MediaService(MediaSettings(max_pixels=1000, max_seconds=0.5))
    with pytest.raises(WorkerFailed, match=r"320 × 120 pixels, more than 1,000 pixels \(media\.max_pixels\)"):
        run(service.pixels(encoded(picture()), "image/png", location=False))
    with pytest.raises(WorkerFailed, match="320 × 120 pixels, more than 1,000 pixels"):
        run(service.pixels(encoded(picture(), "image/webp"), "image/webp", location=False))
    found, samples = run(service.samples(wav(bytes(64_000)), "audio/wav"))
    assert (found["cut"], len(samples)) == (True, 16_000)


def test_a_large_picture_is_reduced() -> None:
    found, rgb = run(MediaService().pixels(encoded(picture(size=(4096, 512))), "image/png", location=False))
    assert (found["sent_width"], found["sent_height"]) == (MAX_SIDE, 256)
    assert len(rgb) == 3 * MAX_SIDE * 256
