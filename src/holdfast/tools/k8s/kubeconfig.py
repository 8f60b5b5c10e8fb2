"""The kubeconfig: which cluster a context means, and how to log in there.

The file is the user's configuration, so it is read as it is; what it may make holdfast do (run a program, skip the
check of certificates) still needs an option of its own. The variable KUBECONFIG is not read: a project could set it.
"""

from __future__ import annotations

import os
from collections import Counter
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct, field

from holdfast.contract.errors import HoldfastError
from holdfast.net.addresses import is_localhost
from holdfast.net.hosts import normalize_host
from holdfast.net.urls import BadUrl, HttpUrl, parse_url
from holdfast.text.escape import clip_escaped
from holdfast.text.suggest import did_you_mean

DEFAULT_FILE: Final = "~/.kube/config"
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER: Final = "in-cluster"
"""The name of the context that the service account of a pod gives."""
_IN_CLUSTER_SERVER: Final = "https://kubernetes.default.svc"
"""In every certificate of an API server. KUBERNETES_SERVICE_HOST would say the address, but a project could set it."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_LISTED: Final = 20

T = TypeVar("T")


class KubeconfigError(HoldfastError):
    """The configuration names no cluster that can be used; the message says what to change."""


class KubernetesSettings(Struct, frozen=True, kw_only=True):
    """The section `[k8s]` of the configuration."""

    kubeconfig: str | None = None
    context: str | None = None
    contexts: tuple[str, ...] = ("*",)
    namespace: str | None = None
    exec_plugins: bool = False
    insecure: bool = False


class Cluster(Struct, frozen=True, kw_only=True):
    server: str = ""
    ca_file: str | None = field(name="certificate-authority", default=None)
    ca_data: str | None = field(name="certificate-authority-data", default=None)
    insecure: bool = field(name="insecure-skip-tls-verify", default=False)
    server_name: str | None = field(name="tls-server-name", default=None)
    proxy_url: str | None = field(name="proxy-url", default=None)


class Variable(Struct, frozen=True):
    name: str
    value: str


class ExecPlugin(Struct, frozen=True, kw_only=True):
    """A program that prints credentials (client.authentication.k8s.io)."""

    api_version: str = field(name="apiVersion", default="")
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str | None = field(name="installHint", default=None)
    interactive: Literal["Never", "IfAvailable", "Always"] | None = field(name="interactiveMode", default=None)
    wants_cluster: bool = field(name="provideClusterInfo", default=False)


class User(Struct, frozen=True, kw_only=True):
    certificate_file: str | None = field(name="client-certificate", default=None)
    certificate_data: str | None = field(name="client-certificate-data", default=None)
    key_file: str | None = field(name="client-key", default=None)
    key_data: str | None = field(name="client-key-data", default=None)
    token: str | None = None
    token_file: str | None = field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    plugin: ExecPlugin | None = field(name="exec", default=None)
    auth_provider: dict[str, Any] | None = field(name="auth-provider", default=None)
    acts_as: str | None = field(name="as", default=None)
    acts_as_uid: str | None = field(name="as-uid", default=None)
    acts_as_groups: tuple[str, ...] | None = field(name="as-groups", default=None)
    acts_as_extra: dict[str, Any] | None = field(name="as-user-extra", default=None)


class Context(Struct, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(Struct, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(Struct, frozen=True):
    name: str
    context: Context | None = None


class Kubeconfig(Struct, frozen=True, kw_only=True):
    current: str | None = field(name="current-context", default=None)
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Access(Struct, frozen=True, kw_only=True):
    """One context: the cluster, who logs in, and the namespace of calls that name none."""

    context: str
    url: HttpUrl
    """The API server, with the path under which it serves, without a slash at the end."""
    namespace: str
    cluster: Cluster
    user_name: str
    user: User
    folder: Path
    """Where relative paths of the kubeconfig start."""

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def proxy(self) -> HttpUrl | None:
        """The proxy, without its login."""
        return None if self.cluster.proxy_url is None else _proxy_url(self.cluster.proxy_url)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a call contacts, as `Reach.hosts` names it."""
        proxy = self.proxy
        return (self.url.entry,) if proxy is None else (self.url.entry, proxy.entry)


def read_access(
    settings: KubernetesSettings, context: str | None = None, *, service_account: Path = SERVICE_ACCOUNT
) -> Access:
    """Return the access that a call gets with a context, or with the default one. Raises `KubeconfigError`."""
    path = Path(os.path.expanduser(settings.kubeconfig or DEFAULT_FILE))  # noqa: PTH111 - no error without a home
    if not path.is_absolute():
        raise KubeconfigError(f"k8s.kubeconfig is {_shown(str(path))}, a relative path. Give its full path.")
    try:
        found = path.stat()
        config = _parsed(path, (found.st_mtime_ns, found.st_size, found.st_ino))
    except FileNotFoundError:
        if settings.kubeconfig is None and (service_account / "token").is_file():
            return _in_cluster(settings, context, service_account)
        hint = "Correct k8s.kubeconfig" if settings.kubeconfig else "Set k8s.kubeconfig"
        raise KubeconfigError(f"There is no kubeconfig at {_shown(str(path))}. {hint} in your configuration.") from None
    except OSError as error:
        raise KubeconfigError(f"The kubeconfig {_shown(str(path))} cannot be read: {error.strerror}.") from None
    return _selected(config, settings, context, path)


@lru_cache(8)
def _parsed(path: Path, version: tuple[int, int, int]) -> Kubeconfig:
    """Parse a file. `version` makes a changed file another entry of the cache."""
    import yaml

    shown = _shown(str(path))
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise KubeconfigError(f"The kubeconfig {shown} is larger than {_MAX_BYTES // 1024**2} MB.")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(data, Loader=loader)  # noqa: S506 - one of the safe loaders
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise KubeconfigError(f"The kubeconfig {shown} is not valid YAML{where}. Correct it.") from None
    try:
        return msgspec.convert(content if content is not None else {}, Kubeconfig)
    except (msgspec.ValidationError, RecursionError) as error:
        raise KubeconfigError(f"The kubeconfig {shown} has an invalid value: {error}. Correct it.") from None


def _selected(config: Kubeconfig, settings: KubernetesSettings, context: str | None, path: Path) -> Access:
    for kind, items in (("contexts", config.contexts), ("clusters", config.clusters), ("users", config.users)):
        for name, count in Counter(item.name for item in items or ()).items():
            if count > 1:
                raise KubeconfigError(
                    f"The kubeconfig {_shown(str(path))} has {count} {kind} {_shown(name)}. Keep one."
                )
    contexts = {item.name: item.context or Context() for item in config.contexts or ()}
    name = context or settings.context or config.current
    if name is None:
        raise KubeconfigError(
            f"The kubeconfig {_shown(str(path))} has no current context. Name one in the call, or set k8s.context to "
            f"one of: {_names(contexts)}."
        )
    _check_allowed(name, settings)
    chosen = _named("context", name, {known: item for known, item in contexts.items() if _allowed(known, settings)})
    cluster = _named("cluster", chosen.cluster, {item.name: item.cluster for item in config.clusters or ()})
    users = {item.name: item.user for item in config.users or ()}
    user = _named("user", chosen.user, users) if chosen.user else User()
    return _checked(
        Access(
            context=name,
            url=_server_url(cluster, name),
            namespace=settings.namespace or chosen.namespace or "default",
            cluster=cluster,
            user_name=chosen.user,
            user=user,
            folder=path.parent,
        ),
        settings,
    )


def _in_cluster(settings: KubernetesSettings, context: str | None, folder: Path) -> Access:
    name = context or settings.context or IN_CLUSTER
    _check_allowed(name, settings)
    if name != IN_CLUSTER:
        raise KubeconfigError(
            f"There is no context {_shown(name)}: without a kubeconfig, the service account of this pod is used, as "
            f"the context {IN_CLUSTER}."
        )
    try:
        own = (folder / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError):
        own = ""
    cluster = Cluster(server=_IN_CLUSTER_SERVER, ca_file="ca.crt")
    return Access(
        context=name,
        url=_server_url(cluster, name),
        namespace=settings.namespace or own or "default",
        cluster=cluster,
        user_name="the service account of this pod",
        user=User(token_file="token"),  # noqa: S106 - the name of a file
        folder=folder,
    )


def _allowed(name: str, settings: KubernetesSettings) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in settings.contexts)


def _check_allowed(name: str, settings: KubernetesSettings) -> None:
    if not _allowed(name, settings):
        raise KubeconfigError(
            f"The context {_shown(name)} is not in k8s.contexts ({', '.join(settings.contexts) or 'empty'}), so it is "
            "not used."
        )


def _checked(access: Access, settings: KubernetesSettings) -> Access:
    """Refuse what needs an option of its own, and what would be ignored silently."""
    cluster, user, name = access.cluster, access.user, access.context
    # A proxy is elsewhere, and `localhost` is what it takes for it.
    local = access.proxy is None and (is_localhost(access.url.host) or access.url.host in ("127.0.0.1", "::1"))
    if cluster.insecure and not settings.insecure:
        raise KubeconfigError(
            f"The context {_shown(name)} sets insecure-skip-tls-verify, so anyone on the way could read its "
            "credentials. Give the cluster a certificate-authority, or set k8s.insecure = true in your configuration."
        )
    if access.url.scheme == "http" and not local and not settings.insecure:
        raise KubeconfigError(
            f"The server of the context {_shown(name)} is {access.url.origin}, which is not encrypted. Use https, or "
            "set k8s.insecure = true in your configuration."
        )
    if user.plugin is not None and not settings.exec_plugins:
        raise KubeconfigError(
            f"The user of the context {_shown(name)} logs in with the program {_shown(user.plugin.command)} (exec). "
            "Set k8s.exec_plugins = true in your configuration to let holdfast run it."
        )
    if user.auth_provider is not None:
        raise KubeconfigError(
            f"The user of the context {_shown(name)} has an auth-provider, which Kubernetes has removed. Use an exec "
            "plugin or a token."
        )
    if user.acts_as_extra:
        raise KubeconfigError(f"The user of the context {_shown(name)} has as-user-extra, which is not supported.")
    return access


def _server_url(cluster: Cluster, context: str) -> HttpUrl:
    if "@" in cluster.server:
        raise KubeconfigError(f"The server of the context {_shown(context)} contains a login. Move it to the user.")
    try:
        url = parse_url(cluster.server)
    except BadUrl as error:
        raise KubeconfigError(f"The server of the context {_shown(context)} cannot be used: {error}") from None
    return msgspec.structs.replace(url, target=url.target.partition("?")[0].rstrip("/"))


def _proxy_url(text: str) -> HttpUrl:
    # The errors of `urlsplit` and `parse_url` quote what they got, which can be a part of the password.
    try:
        parts = urlsplit(text)
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            raise ValueError
        url = parse_url(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
        _ = parts.port
    except (BadUrl, ValueError):
        url = None
    if url is None or url.scheme != "http":
        raise KubeconfigError(
            "The proxy-url of the cluster cannot be used. Supported are http:// proxies, such as "
            "http://proxy.example.org:3128; percent-encode special characters in a login."
        )
    return url


def proxy_login(text: str) -> tuple[str, str] | None:
    """Return the user name and password in a `proxy-url`."""
    parts = urlsplit(text)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))


def server_name(access: Access) -> str | None:
    """Return the name that the certificate must have, if it is not the host's."""
    name = access.cluster.server_name
    if not name:
        return None
    spelled = normalize_host(name)
    if spelled is None:
        raise KubeconfigError(f"The tls-server-name {_shown(name)} of the context {access.context} is not a host name.")
    return spelled


def _named(kind: str, name: str, known: dict[str, T | None]) -> T:
    if (found := known.get(name)) is not None:
        return found
    meant = did_you_mean(name, known)
    hint = f"Did you mean {_shown(meant)}? " if meant else ""
    raise KubeconfigError(f"The kubeconfig has no {kind} {_shown(name)}. {hint}It has: {_names(known)}.")


def _names(known: dict[str, Any]) -> str:
    names = [clip_escaped(name, 80) for name in list(known)[:_LISTED]]
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{', '.join(names)}{more}" if names else "none"


def _shown(text: str) -> str:
    return f"'{clip_escaped(text, 200)}'"
