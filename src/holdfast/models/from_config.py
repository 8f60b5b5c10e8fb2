"""Opens the configured model: resolves its provider, address, API key and parameters."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import urlsplit

from holdfast.config.config import ModelApi, ModelConfig, ModelProvider, SecretSource
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.models.dialects import DIALECTS
from holdfast.models.port import Model, ModelError, ModelFault, Settings
from holdfast.models.protocol import with_protocol
from holdfast.models.providers import KNOWN_PROVIDERS, OPERATOR, Endpoint, KnownProvider, api_of
from holdfast.models.remote_model import RemoteModel
from holdfast.net.addresses import is_loopback
from holdfast.net.network import Network
from holdfast.text.suggest import did_you_mean

SecretReader = Callable[[SecretSource], str]


def open_model(
    config: ModelConfig,
    *,
    secret: SecretReader,
    network: Network | None = None,
    cache_key: str | None = None,
    edit_repair: bool = True,
) -> tuple[Model, Settings]:
    """Return the configured model and its request settings. Sends nothing.

    `network` logs its connections. `edit_repair`: whether a model on the text protocol is shown the form of an edit
    that it failed to repair.
    """
    provider, _, model = config.name.partition(":")
    own = config.providers.get(provider)
    settings = settings_for(config, provider, cache_key)
    if config.name == OPERATOR:
        from holdfast.models.operator.operator import Operator

        return Operator(), settings
    check_name(config)
    endpoint = _endpoint(provider, model, own or ModelProvider(), secret)
    transport = RemoteModel(endpoint, network or Network())
    return with_protocol(transport, config, edit_repair=edit_repair), settings


def check_name(config: ModelConfig, name: str | None = None, option: str = "model.name") -> None:
    """Raise `ConfigError` if the model's name has no provider; does not check that the provider is reachable.

    `name` is another model than the conversation's, from `option`.
    """
    name = config.name if name is None else name
    provider, colon, model = name.partition(":")
    if name == OPERATOR and option == "model.name":
        return
    if provider not in KNOWN_PROVIDERS and provider not in config.providers:
        raise ConfigError(_unknown_provider(provider, config, name, option))
    if not colon or not model:
        raise ConfigError(f"{option} is '{name}'; write it as 'provider:model', such as '{provider}:NAME'.")


def address_of(config: ModelConfig, name: str, option: str) -> tuple[ModelApi, str]:
    """Return the API and the address of a model, without its key. Raises `ConfigError`."""
    check_name(config, name, option)
    provider = name.partition(":")[0]
    return _address(provider, config.providers.get(provider) or ModelProvider())[:2]


def open_endpoint(config: ModelConfig, name: str, option: str, *, secret: SecretReader) -> Endpoint:
    """Return the endpoint of a model for tools. Raises `ConfigError`, or `ModelError` without a key or package."""
    check_name(config, name, option)
    provider, _, model = name.partition(":")
    return _endpoint(provider, model, config.providers.get(provider) or ModelProvider(), secret)


def settings_for(config: ModelConfig, provider: str, cache_key: str | None = None) -> Settings:
    """Return the general parameters, overridden by those of the provider."""
    own = config.providers.get(provider) or ModelProvider()
    thinking = config.thinking if own.thinking is None else own.thinking
    vision = config.vision if own.vision is None else own.vision
    reasoning = own.reasoning
    api = api_of(config, provider)
    if reasoning is None and isinstance(own.thinking, str) and api and not DIALECTS[api].general_thinking:
        reasoning = own.thinking
    return Settings(
        max_tokens=config.max_tokens if own.max_tokens is None else own.max_tokens,
        temperature=config.temperature if own.temperature is None else own.temperature,
        thinking=thinking or None,
        thinking_budget=own.thinking_budget,
        reasoning=reasoning,
        effort=own.effort,
        cache_retention=own.cache_retention or config.cache_retention,
        cache_key=cache_key,
        foreign_thinking=config.foreign_thinking,
        vision=None if vision == "auto" else vision,
        timeout=config.timeout,
        connect_timeout=config.connect_timeout,
        retries=config.retries,
    )


def _unknown_provider(provider: str, config: ModelConfig, name: str, option: str) -> str:
    names = [OPERATOR, *KNOWN_PROVIDERS, *config.providers]
    meant = did_you_mean(provider, names)
    end = f"did you mean '{meant}'?" if meant else f"known are {', '.join(names)}, and what [model.providers] names."
    return f"There is no model provider '{provider}' ({option} is '{name}'); {end}"


def _endpoint(provider: str, model: str, own: ModelProvider, secret: SecretReader) -> Endpoint:
    known = KNOWN_PROVIDERS.get(provider)
    api, base, location = _address(provider, own)
    _check_installed(api)
    key, key_from = _find_key(provider, known, own, secret)
    _check_address(provider, base, key)
    return Endpoint(
        provider=provider,
        api=api,
        model=model,
        base_url=base.rstrip("/"),
        key=key,
        key_from=key_from,
        project=own.project,
        location=location,
        priced=known is not None and bool(known.keys) and own.base_url is None,
    )


def _address(provider: str, own: ModelProvider) -> tuple[ModelApi, str, str | None]:
    """Return the API, the address and the location. Raises `ConfigError`."""
    known = KNOWN_PROVIDERS.get(provider)
    api = own.api or (known.api if known else None)
    if api is None:
        raise ConfigError(f"model.providers.{provider} has no `api`; give one of {', '.join(DIALECTS)}.")
    base = own.base_url or (known.base_url if known and known.api == api else None)
    if base is None:
        raise ConfigError(f"model.providers.{provider} has no `base_url`; give the server's address.")
    base, location = DIALECTS[api].resolve_address(provider, base, own)
    return api, base, location


def _find_key(
    provider: str, known: KnownProvider | None, own: ModelProvider, secret: SecretReader
) -> tuple[str | None, str]:
    if own.api_key is not None:
        key_from = own.api_key.env or f"model.providers.{provider}.api_key"
        key = _read_secret(own.api_key, secret)
        if not key:
            raise ModelError(ModelFault.AUTH, f"{provider} needs a key, but {key_from} is empty; set it.")
        return key, key_from
    names = known.keys if known else ()
    for name in names:
        if key := _read_secret(SecretSource(env=name), secret):
            return key, name
    if names:
        raise ModelError(
            ModelFault.AUTH,
            f"{provider} needs a key: set {' or '.join(names)}, or model.providers.{provider}.api_key.",
        )
    return None, ""


def _read_secret(source: SecretSource, secret: SecretReader) -> str:
    try:
        return secret(source).strip()
    except HoldfastError:
        return ""


def _check_installed(api: ModelApi) -> None:
    try:
        found = find_spec("pydantic_ai") is not None and find_spec(DIALECTS[api].package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        message = f"The '{api}' API needs packages that are not installed: pip install 'holdfast[models]'."
        raise ModelError(ModelFault.NOT_INSTALLED, message)


def _check_address(provider: str, base_url: str, key: str | None) -> None:
    what = f"model.providers.{provider}.base_url"
    try:
        url = urlsplit(base_url)
        host = url.hostname or ""
        _ = url.port
    except ValueError:
        raise ConfigError(f"{what} is not a URL; write it as 'https://host/path'.") from None
    if url.scheme not in ("http", "https") or not host or url.query or url.fragment:
        raise ConfigError(f"{what} is '{base_url}'; write it as 'https://host/path', without query or fragment.")
    if url.username is not None or url.password is not None:
        raise ConfigError(f"{what} contains a user name or password; give the key as `api_key` instead.")
    if url.scheme == "http" and key is not None and not is_loopback(host):
        raise ConfigError(f"{what} would send a key to {host} unencrypted; use https, or no key.")
