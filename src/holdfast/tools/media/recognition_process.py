"""The process that reads text in pictures or speech in recordings, with models that stay loaded between requests.

It gets pixels and samples that `decoder_process` made, never a file of a stranger. It ends by itself when it is idle,
and it cannot download: its models are on the disk, or it says which file is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from holdfast.tools.media.decoder_process import RATE
from holdfast.tools.worker_frames import Pipe, Reply, Request, Unreadable, allow_cpu_time, confine, limit_resources

MEMORY: Final = 4 * 1024**3
_MAX_LINES: Final = 2_000
_MAX_SEGMENTS: Final = 10_000
_MAX_CHARS: Final = 1_000_000
_MAX_TOKENS: Final = 224
"""Of one window of 30 seconds: half of Whisper's context, so that no sound makes it repeat itself for long."""

Progress = Callable[[float], None]
Recognizer = Callable[[Request, bytes, Progress], Reply]


def threads() -> int:
    return max(1, min(4, os.cpu_count() or 1))


def load_reader() -> Recognizer:
    """Load RapidOCR with the weights of its own package."""
    import logging

    import numpy as np

    # RapidOCR downloads models that are not in its folder. These are; a changed package must not reach out either.
    import rapidocr
    from rapidocr import RapidOCR

    folder = Path(rapidocr.__file__).parent / "models"
    files = {name: next(iter(sorted(folder.glob(pattern))), None) for name, pattern in _OCR_FILES.items()}
    missing = [pattern for name, pattern in _OCR_FILES.items() if files[name] is None]
    if missing:
        raise Unreadable(f"the package rapidocr lacks its models ({', '.join(missing)}). Install it again")
    logging.disable(logging.CRITICAL)
    engine: Any = RapidOCR(params={
        **{f"{name}.model_path": str(path) for name, path in files.items()},
        "EngineConfig.onnxruntime.intra_op_num_threads": threads(),
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    })  # fmt: skip

    def read(request: Request, data: bytes, progress: Progress) -> Reply:
        width, height = int(request["width"]), int(request["height"])
        rgb = np.frombuffer(data, np.uint8).reshape(height, width, 3)
        found: Any = engine(np.ascontiguousarray(rgb[:, :, ::-1]))
        texts, scores = found.txts or (), found.scores or ()
        lines = [
            {"text": str(text), "score": round(float(score), 3)} for text, score in zip(texts, scores, strict=True)
        ]
        return {"lines": lines[:_MAX_LINES], "left_out": max(0, len(lines) - _MAX_LINES)}

    return read


_OCR_FILES: Final = {"Det": "*_det_*.onnx", "Cls": "*_cls_*.onnx", "Rec": "*_rec_*.onnx"}
_WHISPER_FILES: Final = ("config.json", "model.bin", "tokenizer.json")


def load_listener(folder: str) -> Recognizer:
    """Load a Whisper model of faster-whisper."""
    missing = [name for name in _WHISPER_FILES if not (Path(folder) / name).is_file()]
    if missing:  # without its tokenizer, faster-whisper would download one
        raise Unreadable(f"media.whisper_model ({folder}) lacks {' and '.join(missing)}")
    import numpy as np
    from faster_whisper import WhisperModel

    model: Any = WhisperModel(
        folder, device="cpu", compute_type="int8", cpu_threads=threads(), num_workers=1, local_files_only=True
    )

    def listen(request: Request, data: bytes, progress: Progress) -> Reply:
        samples = np.frombuffer(data, np.int16).astype(np.float32) / 32768
        language = request["language"]
        if language is not None and language not in model.supported_languages:
            raise Unreadable(f"the model does not know the language '{language}'; use a code such as en, or none")
        segments, info = model.transcribe(
            samples,
            language=language,
            beam_size=5,
            vad_filter=True,
            condition_on_previous_text=False,
            max_new_tokens=_MAX_TOKENS,
        )
        found: list[dict[str, Any]] = []
        size = 0
        total = len(samples) / RATE
        for segment in segments:
            text = str(segment.text).strip()
            size += len(text)
            if len(found) >= _MAX_SEGMENTS or size > _MAX_CHARS:
                break
            found.append({"start": round(segment.start, 2), "end": round(segment.end, 2), "text": text})
            progress(min(1.0, segment.end / total))
        return {"language": info.language if found else None, "segments": found}

    return listen


def main() -> None:
    kind, folder, idle_seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    pipe = Pipe()
    weights = sum(each.stat().st_size for each in Path(folder).glob("*") if each.is_file()) if folder else 0
    limit_resources(MEMORY + 3 * weights, threads=True)
    confine(reads=True)  # before the models start their threads
    recognize: Recognizer | None = None

    def handle(request: Request, data: bytes) -> tuple[Reply, bytes]:
        nonlocal recognize
        if recognize is None:
            pipe.write({"progress": "loading"})
            recognize = load_reader() if kind == "text" else load_listener(folder)
        return recognize(request, data, lambda share: pipe.write({"progress": share})), b""

    while (found := pipe.read_request(idle_seconds)) is not None:
        allow_cpu_time(float(found[0]["seconds"]) * threads() + 10)
        pipe.answer(handle, *found)


if __name__ == "__main__":
    main()
