"""The kubeconfig: contexts, and everything that is refused because it needs an option or would be ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.k8s.kubeconfig import Access, KubeconfigError, KubernetesSettings, read_access
from tests.text.strategies import ANY_TEXT
from tests.tools.k8s.api_server import ApiServer, Object, kubeconfig

pytestmark = pytest.mark.spec("B10e")


def read(folder: Path, content: Object | str | None = None, context: str | None = None, **settings: Any) -> Access:
    path = folder / "config"
    if content is None:
        path = kubeconfig(folder, ApiServer(port=6443))
    else:
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    chosen = KubernetesSettings(kubeconfig=str(path), **settings)
    return read_access(chosen, context, service_account=folder / "none")


def config(cluster: Object | None = None, user: Object | None = None, **context: Any) -> Object:
    return {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **context}}],
    }


def refused(folder: Path, content: Object | str | None, context: str | None = None, **settings: Any) -> str:
    with pytest.raises(KubeconfigError) as error:
        read(folder, content, context, **settings)
    return str(error.value)


def test_the_context_of_the_call_comes_before_the_configured_and_the_current_one(tmp_path: Path) -> None:
    assert read(tmp_path).context == "dev"
    assert read(tmp_path, context=None, contexts=("*",)).hosts == ("127.0.0.1:6443",)
    chosen = KubernetesSettings(kubeconfig=str(tmp_path / "config"), context="other")
    assert read_access(chosen).url.host == "192.0.2.1"
    assert read_access(chosen, "dev").url.host == "127.0.0.1"


def test_an_unknown_context_cluster_or_user_is_named_with_a_suggestion(tmp_path: Path) -> None:
    assert "no context 'othr'. Did you mean 'other'? It has: dev, other." in refused(tmp_path, None, "othr")
    lost = config()
    lost["clusters"] = []
    assert "no cluster 'k'. It has: none." in refused(tmp_path, lost)
    lost = config()
    lost["users"] = None
    assert "no user 'u'" in refused(tmp_path, lost)
    lost["current-context"] = None
    assert "no current context" in refused(tmp_path, lost)


def test_only_the_contexts_that_the_configuration_allows_are_used(tmp_path: Path) -> None:
    assert read(tmp_path, contexts=("de*",)).context == "dev"
    said = refused(tmp_path, None, "other", contexts=("de*",))
    assert "'other' is not in k8s.contexts (de*)" in said
    assert "other" not in refused(tmp_path, None, "devv", contexts=("de*",)).partition("It has")[2]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, ApiServer(port=1))
    settings = KubernetesSettings(kubeconfig=str(path))
    assert read_access(settings).url.port == 1
    kubeconfig(tmp_path, ApiServer(port=22))
    assert read_access(settings).url.port == 22


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "invalid value"),
        ("clusters: 5", "invalid value"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("", "no current context"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, content: str, words: str) -> None:
    assert words in refused(tmp_path, content)


@given(content=ANY_TEXT | st.sampled_from(["clusters: [{name: k}]\ncontexts: [{name: c}]\ncurrent-context: c"]))
def test_any_file_is_read_or_refused_in_words(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "config").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(KubeconfigError):
        read_access(KubernetesSettings(kubeconfig=str(folder / "config")))


def test_a_missing_or_relative_file_says_which_option_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, ApiServer(port=1))))
    with pytest.raises(KubeconfigError, match=r"no kubeconfig at .*/\.kube/config.* Set k8s\.kubeconfig"):
        read_access(KubernetesSettings(), service_account=tmp_path / "none")
    with pytest.raises(KubeconfigError, match="relative path"):
        read_access(KubernetesSettings(kubeconfig="config"))


def test_the_default_file_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", ApiServer(port=7))
    assert read_access(KubernetesSettings()).url.port == 7


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "evil.example")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t0ken")
    (account / "namespace").write_text("mine\n")
    found = read_access(KubernetesSettings(), service_account=account)
    assert (found.context, found.namespace, str(found.url)) == ("in-cluster", "mine", "https://kubernetes.default.svc")
    assert found.path(found.cluster.ca_file or "") == account / "ca.crt"
    with pytest.raises(KubeconfigError, match="as the context in-cluster"):
        read_access(KubernetesSettings(), "prod", service_account=account)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (config({"insecure-skip-tls-verify": True}), "set k8s.insecure = true"),
        (config({"server": "http://k.example"}), "not encrypted. Use https, or set k8s.insecure = true"),
        (config(user={"exec": {"command": "aws"}}), "'aws' (exec). Set k8s.exec_plugins = true"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (config(user={"as": "x", "as-user-extra": {"a": ["b"]}}), "as-user-extra"),
        (config({"server": "ftp://k.example"}), "scheme ftp:"),
        (config({"server": ""}), "address is empty"),
        (config({"server": "https://user:pw@k.example"}), "contains a login. Move it to the user."),
        (config({"proxy-url": "socks5://p.example"}), "proxy-url"),
        (config({"proxy-url": "https://p.example"}), "Supported are http:// proxies"),
        (
            config({"server": "http://localhost:8001", "proxy-url": "http://p.example:3128"}),
            "not encrypted. Use https, or set k8s.insecure = true",
        ),
    ],
)
def test_what_needs_an_option_or_cannot_be_honoured_is_refused(tmp_path: Path, content: Object, words: str) -> None:
    assert words in refused(tmp_path, content)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:s3cr\u2100et@p.example:3128",
        "http://me:s3cr[et@p.example",
        "http://me:s3cr/et@p.example",
        "http://me:12?s3cret@p.example",
        "socks5://me:s3cret@p.example:1",
        "https://me:s3cret@p.example",
        "http://me:s3cret@p.example:99999",
        "me:s3cret@p.example",
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(tmp_path: Path, url: str) -> None:
    said = refused(tmp_path, config({"proxy-url": url}))
    assert "proxy-url" in said and "s3cr" not in said and "me:" not in said


@pytest.mark.parametrize("kind", ["contexts", "clusters", "users"])
def test_a_name_that_stands_for_two_things_is_refused(tmp_path: Path, kind: str) -> None:
    content = config()
    name = content[kind][0]["name"]
    content[kind] = [*content[kind], {"name": name}]
    assert f"has 2 {kind} '{name}'. Keep one." in refused(tmp_path, content)


def test_options_allow_what_they_name(tmp_path: Path) -> None:
    assert read(tmp_path, config({"insecure-skip-tls-verify": True}), insecure=True).cluster.insecure
    assert read(tmp_path, config({"server": "http://k.example"}), insecure=True).url.scheme == "http"
    plugin = config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}})
    assert read(tmp_path, plugin, exec_plugins=True).user.plugin is not None
    assert read(tmp_path, config({"server": "http://127.0.0.1:8001"})).url.port == 8001


def test_a_path_of_the_server_and_a_proxy_are_kept(tmp_path: Path) -> None:
    content = config({"server": "https://hub.example/k8s/c-1/", "proxy-url": "http://me:pw@proxy.example:3128"})
    found = read(tmp_path, content)
    assert found.url.target == "/k8s/c-1"
    assert found.hosts == ("hub.example", "proxy.example:3128")
