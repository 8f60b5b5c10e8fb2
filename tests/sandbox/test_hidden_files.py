"""Patterns of `sandbox.read_deny`: what they match, and how they hide files from commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox import hidden_files
from holdfast.sandbox.hidden_files import HiddenFilePatterns, pattern_problem
from holdfast.sandbox.launch import run_launch
from holdfast.sandbox.sandbox import Sandbox
from tests.sandbox.sandboxed_commands import TIMEOUT, policy

SECRETS = (  # noqa: SIM905
    ".env .env.local .envrc .env.production a/.env prod.env .ENV .envs/production/django id_rsa a/id_ed25519 "
    "server.key a.pem my-key.pem cert-key.pem ca-key.pem cert.priv.pem publish-key.pem store.jks x.p12 AuthKey_1.p8 "
    ".aws/credentials a/.aws/credentials credentials.json client_secret_1.json service-account.json .netrc .pgpass"
).split()
ORDINARY = (  # noqa: SIM905
    ".env.example .env.sample .env.template .env.dist .env.local.example .env-example example.env prod.example.env "
    "id_rsa.pub cert.pem ca.pem rootCA.pem cacert.pem fullchain.pem pubkey.pem public_key.pem jwt-public.pem a.crt "
    "public.key jwt_public.key debug.keystore .env/bin/python env.py environment.py monkey.py src/keys.py .npmrc "
    "README.md node_modules/a/.env lib/site-packages/a/x.key .git/refs/heads/a.key secrets.yaml"
).split()


def secret_files() -> HiddenFilePatterns:
    return HiddenFilePatterns([("/p", "$secrets")])


@pytest.mark.spec("N2")
@pytest.mark.parametrize("name", SECRETS)
def test_environment_files_private_keys_and_credentials_are_asked_about(name: str) -> None:
    assert secret_files().restriction(f"/p/{name}") == "ask"
    assert secret_files().restriction(f"/elsewhere/{name}") is None


@pytest.mark.spec("N2")
@pytest.mark.parametrize("name", ORDINARY)
def test_templates_certificates_and_ordinary_files_are_not(name: str) -> None:
    assert secret_files().restriction(f"/p/{name}") is None


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("entries", "hidden", "seen"),
    [
        (("*.bak",), "a.bak x/b.bak x.bak/inside", "a.bak.txt bak"),
        (("deploy/",), "deploy/key x/deploy/y", "deployment/x"),
        (("conf/*.yml",), "conf/a.yml", "conf/x/a.yml x/conf/a.yml"),
        (("./top.txt", "./*.log"), "top.txt a.log", "x/top.txt x/a.log"),
        (("conf/**/key",), "conf/key conf/a/b/key", "key"),
        (("*.bak", "!keep.bak"), "a.bak", "keep.bak x/keep.bak"),
        (("private/", "!private/open"), "private/open", ""),
        (("secret",), "secret x/secret", "secrets"),
    ],
)
def test_patterns_follow_gitignore_rules(tmp_path: Path, entries: tuple[str, ...], hidden: str, seen: str) -> None:
    place = policy(tmp_path, read_deny=entries)
    assert {name: place.read_restriction(tmp_path / name) for name in hidden.split()} == dict.fromkeys(
        hidden.split(), "deny"
    )
    assert {name: place.read_restriction(tmp_path / name) for name in seen.split()} == dict.fromkeys(seen.split())


@pytest.mark.spec("N2")
def test_a_pattern_may_begin_at_a_folder_elsewhere(tmp_path: Path) -> None:
    place = policy(tmp_path / "project", read_deny=(f"{tmp_path}/other/*.txt", "~/notes/**/x"))
    assert place.read_restriction(tmp_path / "other" / "a.txt") == "deny"
    assert place.read_restriction(tmp_path / "other" / "deep" / "a.txt") is None
    assert place.read_restriction(Path.home() / "notes" / "a" / "x") == "deny"


@pytest.mark.spec("N2")
def test_a_symlink_called_like_a_hidden_file_leads_to_one(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("k")
    (tmp_path / ".env").symlink_to("plain")
    (tmp_path / "notes").symlink_to(".env")
    place = policy(tmp_path)
    assert place.read_restriction(tmp_path / ".env") == "ask" and place.read_restriction(tmp_path / "plain") is None
    assert hidden_files.compile_patterns(place.deny_patterns).find().paths == (str(tmp_path / "plain"),)


@pytest.mark.spec("N2")
@pytest.mark.parametrize("entry", ["#x", "a/../*", "[ab", "!", " ", "a//*b", "x\\", "./../*.key"])
def test_a_pattern_that_can_match_nothing_is_reported(entry: str) -> None:
    assert pattern_problem(entry) is not None


@pytest.mark.spec("N2")
@pytest.mark.parametrize("entry", [*hidden_files.SECRET_FILES, "~/.ssh", "/srv/private", "$secrets", "a/b", "$HOME"])
def test_an_entry_that_can_match_is_not(entry: str) -> None:
    assert pattern_problem(entry) is None


def contained(root: Path, **options: object) -> Sandbox:
    made = Sandbox(SandboxConfig(**options), root=root, cwd=root)  # pyright: ignore[reportArgumentType]
    assert made.backend() is not None
    return made


def printed(sandbox: Sandbox, script: str, **options: object) -> str:
    launch = sandbox.launch(Command(argv=("sh", "-c", script)), **options)  # pyright: ignore[reportArgumentType]
    _code, out, _err = run_launch(launch, TIMEOUT)
    return out.decode()


def project(root: Path) -> Path:
    for name in (".env", "sub/.env.local", "certs/server.key", "certs/server.crt", ".env.example"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"of {name}\n")
    (root / "link").symlink_to(".env")
    return root


ALL = "cat .env sub/.env.local certs/server.key certs/server.crt .env.example link"


@pytest.mark.spec("N2")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_a_command_does_not_see_what_patterns_match(tmp_path: Path, backend: str) -> None:
    sandbox = contained(project(tmp_path), backend=backend)
    assert printed(sandbox, ALL) == "of certs/server.crt\nof .env.example\n"
    assert "server.key" in printed(sandbox, "ls certs")
    script = f"mv certs c; cat c/server.key; cp .env x; ln .env y; rm -f .env; echo forged > .env; {ALL}; cat x y"
    assert "of .env\n" not in printed(sandbox, script)
    assert (tmp_path / ".env").read_text() == "of .env\n"


@pytest.mark.spec("N2")
def test_a_granted_file_is_seen_by_that_command_alone(tmp_path: Path) -> None:
    sandbox = contained(project(tmp_path))
    assert printed(sandbox, ALL, granted=(tmp_path / ".env",)).startswith("of .env\nof certs/server.crt")
    assert "of .env\n" not in printed(sandbox, ALL)
    launch = sandbox.launch(Command(argv=("true",)))
    run_launch(launch, TIMEOUT)
    assert {str(tmp_path / name) for name in (".env", "sub/.env.local", "certs/server.key")} <= set(launch.hidden)


@pytest.mark.spec("N2")
def test_what_cannot_all_be_hidden_is_refused_or_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    monkeypatch.setattr(hidden_files, "MAX_ENTRIES", 3)
    sandbox = contained(tmp_path)
    assert "more than 3 files" in sandbox.incomplete_hiding
    with pytest.raises(SandboxRefused, match=r"sandbox\.read_deny"):
        sandbox.launch(Command(argv=("true",)), require_complete=True)
    monkeypatch.setattr(hidden_files, "MAX_ENTRIES", 100)
    monkeypatch.setattr(hidden_files, "MAX_HIDDEN", 1)
    assert len(hidden_files.compile_patterns(sandbox.policy.deny_patterns).find().paths) == 1
