"""Opening a configured model: providers, addresses, keys, and the errors about them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.config.config import ModelConfig, ModelProvider, SecretSource
from holdfast.contract.errors import ConfigError, SecretUnavailable
from holdfast.models import from_config
from holdfast.models.from_config import open_model
from holdfast.models.native import NativeModel
from holdfast.models.port import Model, ModelError, ModelFault
from holdfast.models.remote_model import RemoteModel


def secrets(**known: str) -> Callable[[SecretSource], str]:
    def get(source: SecretSource) -> str:
        if source.env in known:
            return known[source.env]
        raise SecretUnavailable("no value")

    return get


def _blank(_: SecretSource) -> str:
    return " "


def opened(
    name: str, *, secret: Callable[[SecretSource], str] | None = None, **providers: ModelProvider
) -> RemoteModel:
    model, _ = open_model(ModelConfig(name=name, protocol="native", providers=providers), secret=secret or secrets())
    _is_a_model: Model = model
    remote = model.inner if isinstance(model, NativeModel) else model
    assert isinstance(remote, RemoteModel)
    return remote


@pytest.mark.parametrize(
    ("name", "variable", "api", "address"),
    [
        ("anthropic:claude-opus-4-5", "ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com"),
        ("openai:gpt-5", "OPENAI_API_KEY", "openai", "https://api.openai.com/v1"),
        ("google:gemini-2.5-pro", "GEMINI_API_KEY", "google", "https://generativelanguage.googleapis.com"),
        ("google:gemini-2.5-pro", "GOOGLE_API_KEY", "google", "https://generativelanguage.googleapis.com"),
    ],
)
@pytest.mark.spec("M1")
def test_a_known_provider_reads_its_key_from_its_environment_variable(
    name: str, variable: str, api: str, address: str
) -> None:
    model = opened(name, secret=secrets(**{variable: "k-1"}))
    assert (model.name, model.provider) == (name, name.partition(":")[0])
    end = model.endpoint
    assert (end.api, end.base_url, end.key, end.key_from, end.priced) == (api, address, "k-1", variable, True)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ollama:llama3.2:3b", "http://127.0.0.1:11434/v1"),
        ("llamacpp:any", "http://127.0.0.1:8080/v1"),
        ("vllm:meta/llama", "http://127.0.0.1:8000/v1"),
        ("lmstudio:m", "http://127.0.0.1:1234/v1"),
    ],
)
@pytest.mark.spec("M1")
def test_local_servers_need_no_key_and_have_no_price(name: str, address: str) -> None:
    end = opened(name).endpoint
    assert (end.base_url, end.api, end.key, end.priced) == (address, "openai-chat", None, False)
    assert end.name == name


@pytest.mark.spec("M1")
def test_any_server_can_be_configured() -> None:
    mine = ModelProvider(api="anthropic", base_url="https://gate.example/a/", api_key=SecretSource(env="GATE"))
    end = opened("gate-way:claude", secret=secrets(GATE="g"), **{"gate-way": mine}).endpoint
    assert (end.api, end.base_url, end.key, end.key_from) == ("anthropic", "https://gate.example/a", "g", "GATE")
    assert (end.priced, end.signer) == (False, "gate_way")


@pytest.mark.spec("M1")
def test_a_known_provider_at_another_address_has_no_price() -> None:
    proxy = ModelProvider(base_url="https://proxy.example")
    end = opened("openai:gpt-5", secret=secrets(OPENAI_API_KEY="k"), openai=proxy).endpoint
    assert (end.base_url, end.priced) == ("https://proxy.example", False)


@pytest.mark.spec("M1")
def test_vertex_has_a_project_a_location_and_a_token() -> None:
    token = secrets(VERTEX_ACCESS_TOKEN="t")
    near = ModelProvider(project="p", location="europe-west4")
    end = opened("vertex:gemini-2.5-pro", secret=token, vertex=near).endpoint
    assert (end.base_url, end.project) == ("https://europe-west4-aiplatform.googleapis.com", "p")
    end = opened("vertex:gemini-2.5-pro", secret=token, vertex=ModelProvider(project="p")).endpoint
    assert (end.base_url, end.location) == ("https://aiplatform.googleapis.com", "global")
    with pytest.raises(ConfigError, match="project"):
        opened("vertex:gemini-2.5-pro", secret=token)


def refused(name: str, **providers: ModelProvider) -> str:
    with pytest.raises(ConfigError) as caught:
        opened(name, secret=secrets(K="k"), **providers)
    return str(caught.value)


@pytest.mark.spec("M1")
def test_an_unknown_provider_is_rejected_with_a_suggestion() -> None:
    assert "did you mean 'anthropic'?" in refused("antropic:claude")
    assert "did you mean 'mine'?" in refused("mne:x", mine=ModelProvider(api="openai", base_url="https://m.example"))
    assert "known are operator, anthropic" in refused("zzzzzzzz:claude")
    assert "did you mean 'operator'?" in refused("operater")


@pytest.mark.spec("M1")
def test_a_name_without_a_model_is_rejected() -> None:
    assert "'provider:model'" in refused("anthropic")
    assert "'provider:model'" in refused("ollama:")


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (ModelProvider(base_url="https://x.example"), "`api`"),
        (ModelProvider(api="openai"), "`base_url`"),
        (ModelProvider(api="openai", base_url="ftp://x.example"), "https://host/path"),
        (ModelProvider(api="openai", base_url="https://"), "https://host/path"),
        (ModelProvider(api="openai", base_url="https://x.example/?k=1"), "https://host/path"),
        (ModelProvider(api="openai", base_url="http://[::1"), "https://host/path"),
        (ModelProvider(api="openai", base_url="https://me:pw@x.example"), "`api_key`"),
        (ModelProvider(api="openai", base_url="http://x.example", api_key=SecretSource(env="K")), "unencrypted"),
    ],
)
@pytest.mark.spec("M1")
def test_an_invalid_address_is_rejected_with_the_reason(provider: ModelProvider, says: str) -> None:
    assert says in refused("mine:m", mine=provider)


@pytest.mark.spec("M1")
def test_a_key_may_be_sent_to_loopback_unencrypted() -> None:
    near = ModelProvider(api="openai", base_url="http://localhost:1/v1", api_key=SecretSource(env="K"))
    assert opened("mine:m", secret=secrets(K="k"), mine=near).endpoint.key == "k"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("anthropic:c", "ANTHROPIC_API_KEY"),
        ("openai:g", "OPENAI_API_KEY"),
        ("google:g", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
@pytest.mark.spec("M1")
def test_a_missing_key_names_its_variable(name: str, says: str) -> None:
    for secret in (secrets(), _blank):
        with pytest.raises(ModelError, match=says) as caught:
            opened(name, secret=secret)
        assert caught.value.fault is ModelFault.AUTH


@pytest.mark.spec("M1")
def test_a_missing_configured_key_names_the_setting() -> None:
    from_command = ModelProvider(api_key=SecretSource(command=("pass", "x")))
    with pytest.raises(ModelError, match=r"model\.providers\.openai\.api_key"):
        opened("openai:gpt-5", openai=from_command)


@pytest.mark.parametrize("missing", ["pydantic_ai", "anthropic"])
@pytest.mark.spec("M1")
def test_missing_packages_are_named_with_the_install_command(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Any:
        return None if name == missing else object()

    monkeypatch.setattr(from_config, "find_spec", find)
    with pytest.raises(ModelError, match=r"pip install 'holdfast\[models\]'") as caught:
        opened("anthropic:c", secret=secrets(ANTHROPIC_API_KEY="k"))
    assert caught.value.fault is ModelFault.NOT_INSTALLED


@pytest.mark.spec("M1")
def test_opening_a_model_loads_none_of_the_heavy_packages() -> None:
    script = (
        "import sys; from holdfast.config.config import ModelConfig; "
        "from holdfast.models.from_config import open_model; "
        "open_model(ModelConfig(name='ollama:m'), secret=lambda s: ''); "
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
