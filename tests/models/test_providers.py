"""The guide to models agrees with the code: its configurations load, and its table of providers is accurate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.config.config import ModelConfig, SecretSource
from holdfast.config.layers import load
from holdfast.models.from_config import KNOWN_PROVIDERS, open_model
from holdfast.models.protocol import FallbackModel, ProbedModel
from holdfast.models.remote_model import RemoteModel
from holdfast.models.text_protocol.text_model import TextModel

GUIDE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
SNIPPETS = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def _configured(text: str, tmp_path: Path) -> ModelConfig:
    (tmp_path / "user.toml").write_text(text)
    return load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=tmp_path / "user.toml").config.model


@pytest.mark.parametrize("text", SNIPPETS, ids=range(len(SNIPPETS)))
@pytest.mark.spec("D7")
def test_every_configuration_of_the_guide_is_valid(text: str, tmp_path: Path) -> None:
    def secret(_: SecretSource) -> str:
        return "k"

    config = _configured(text, tmp_path)
    assert config != ModelConfig()
    if ":" in config.name:
        model, _ = open_model(config, secret=secret)
        assert isinstance(model, RemoteModel | TextModel | FallbackModel | ProbedModel)


@pytest.mark.spec("M1")
def test_the_guide_lists_the_providers_with_their_addresses_and_keys() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", GUIDE, re.MULTILINE))
    assert set(rows) == set(KNOWN_PROVIDERS)
    for name, known in KNOWN_PROVIDERS.items():
        assert all(key in rows[name] for key in known.keys)
        assert known.keys or known.base_url in rows[name]
