"""Granted paths and hidden files, in real sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.contract.widening import Widening
from holdfast.fs.own_paths import user_config_file, user_state_dir
from holdfast.sandbox.launch import Backend, run_launch
from holdfast.sandbox.sandbox import Sandbox
from tests.sandbox.sandboxed_commands import TIMEOUT

Name = Literal["bubblewrap", "landlock"]
both = pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
FILES = ("vault/a", "vault/b", "vault/sub/c", "vault/sub/.env", ".env", ".env.d/x", ".env.d/y", "plain")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, next to a home folder with holdfast's own files."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    own = (user_config_file(), user_state_dir() / "ledger.db")
    assert all(path.is_relative_to(home) for path in own)
    others = (home / ".config/other", home / ".config/git/config", home / ".ssh/id_rsa", home / "notes")
    for path in (*own, *others, *(tmp_path / "project" / name for name in FILES)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if path.name == "config" else f"content of {path.name}\n")
    return tmp_path


class _Probed(Sandbox):
    """With a backend that other tests have probed: a new home would mean probing again."""

    def backend(self) -> Backend:
        return next(iter(self.backends()))


def seen(
    place: Path,
    backend: Name,
    deny: Sequence[str],
    names: str,
    granted: Sequence[Path] = (),
    command: dict[str, Any] | None = None,
    **widening: Any,
) -> str:
    """Return which paths, relative to the test folder, a command can read; file tools must agree."""
    root = place / "project"
    sandbox = _Probed(SandboxConfig(read_deny=("$secrets", "~/.ssh", *deny), backend=backend), root=root, cwd=root)
    if widening:
        given: dict[str, Any] = {}
        for kind, paths in widening.items():
            given[kind] = tuple(str(place / path) for path in paths.split())
        sandbox = sandbox.widened(sandbox.resolve_widening(Widening(**given)))
    script = "; ".join(f"grep -q content '{place / name}' 2>/dev/null && echo {name}" for name in names.split())
    launch = sandbox.launch(Command(argv=("sh", "-c", f"{script}; echo end"), **(command or {})), granted=granted)
    code, out, err = run_launch(launch, TIMEOUT)
    *found, end = out.decode().split() or [""]
    assert (code, end) == (0, "end"), err
    told = [name for name in names.split() if sandbox.is_path_readable(place / name, granted)]
    assert found == told, "commands and file tools differ"
    return " ".join(found)


OWN = "home/.config/holdfast/config.toml home/.local/state/holdfast/ledger.db"


@both
@pytest.mark.spec("A19", "N7")
@pytest.mark.parametrize(
    ("deny", "widening"),
    [
        ("", {"read": "home"}),
        ("~/.config ~/.local", {"read": "home"}),
        ("~/.config ~/.local", {"read": "home/.config home/.local/state"}),
        ("~/.config ~/.local", {"write": "home/.config home/.local"}),
        ("~/.config ~/.local", {"read": "home", "write": "home"}),
    ],
)
def test_holdfast_files_stay_hidden_inside_granted_folders(
    place: Path, backend: Name, deny: str, widening: dict[str, Any]
) -> None:
    assert seen(place, backend, deny.split(), f"{OWN} home/.config/other", **widening) == "home/.config/other"


@both
@pytest.mark.spec("A19", "N2")
def test_write_access_to_a_folder_does_not_reveal_its_hidden_files(place: Path, backend: Name) -> None:
    names = "home/.ssh/id_rsa home/notes"
    assert seen(place, backend, (), names, write="home") == "home/notes"
    assert seen(place, backend, (), names, read="home") == names
    assert seen(place, backend, (), "home/.ssh/id_rsa", write="home/.ssh") == "home/.ssh/id_rsa"
    names = "project/vault/a project/vault/sub/c project/vault/sub/.env"
    assert seen(place, backend, ("./vault",), names, write="project/vault/sub") == "project/vault/sub/c"
    for folder in ("project/vault", "project/vault/sub"):
        with pytest.raises(SandboxRefused, match="hidden by a pattern"):
            seen(place, backend, ("vaul*/",), names, write=folder)


@both
@pytest.mark.spec("A19", "N2")
@pytest.mark.parametrize("deny", ["./vault", "vaul*/"])
@pytest.mark.parametrize("command", [{}, {"read_only": True}, {"read_only": True, "sees": "project"}])
def test_only_the_granted_parts_of_a_hidden_folder_are_visible(
    place: Path, backend: Name, deny: str, command: dict[str, Any]
) -> None:
    names = "project/vault/a project/vault/b project/vault/sub/c project/.env project/plain"
    found = seen(place, backend, (deny,), names, command=command, read="project/vault/a")
    assert found == "project/vault/a project/plain"


@both
@pytest.mark.spec("N2")
@pytest.mark.parametrize("command", [{}, {"read_only": True}, {"read_only": True, "sees": "project"}])
def test_an_approved_secret_is_the_only_visible_one_in_its_folder(
    place: Path, backend: Name, command: dict[str, Any]
) -> None:
    names, granted = "project/.env.d/x project/.env.d/y project/plain", (place / "project/.env.d/x",)
    assert seen(place, backend, (), names, granted, command) == "project/.env.d/x project/plain"


@both
@pytest.mark.spec("N2")
def test_patterns_may_match_inside_a_denied_folder(place: Path, backend: Name) -> None:
    names = "project/vault/a project/vault/sub/.env home/.ssh/id_rsa project/plain"
    assert seen(place, backend, ("./vault", "~/.ssh/id_*"), names) == "project/plain"


@pytest.mark.spec("A19")
def test_nested_granted_folders_are_linked_from_home(place: Path) -> None:
    names = "home/.config/other home/.ssh/id_rsa"
    assert seen(place, "bubblewrap", (), names, read="home/.config home/.config/other") == "home/.config/other"
