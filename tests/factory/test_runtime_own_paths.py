"""holdfast's own files (state, configuration, installation, skill manifests) are protected in every sandbox mode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.contract.call import Caller
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Result
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.fs.own_paths import installation_paths, user_config_file, user_state_dir
from holdfast.fs.protected_paths import INSTALLED_REASON, protected_reason
from holdfast.rules.skills import digest_of
from holdfast.runtime.runtime import Runtime
from tests.factory.chat_project import ChatProject
from tests.runtime.support import run

EVERY_MODE = pytest.mark.parametrize(
    "flags",
    [
        {"sandbox.mode": "required", "sandbox.undo": "auto"},
        {"sandbox.mode": "required", "sandbox.undo": "off"},
        {"sandbox.mode": "required", "sandbox.backend": "landlock"},
        {"sandbox.mode": "off"},
    ],
    ids=["overlay", "binds", "landlock", "off"],
)


def in_home(chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that contains the state and the configuration, like a home folder."""
    home = chat_project.root
    monkeypatch.setattr("holdfast.config.roots._login_home", lambda: home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    for path in (user_config_file(), user_state_dir() / "secret"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return home


def opened(chat_project: ChatProject, flags: dict[str, Any]) -> Runtime:
    return build_runtime(load_project(chat_project.root, {"approval.require_approval": False, **flags}))


def called(chat_project: ChatProject, flags: dict[str, Any], tool: str, args: dict[str, Any]) -> Result:
    async def session() -> Result:
        async with opened(chat_project, flags) as runtime:
            return await runtime.call(tool, args)

    return run(session())


@EVERY_MODE
@pytest.mark.spec("N7a", "N9")
def test_no_file_tool_reads_or_changes_state_and_configuration(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]
) -> None:
    home = in_home(chat_project, monkeypatch)
    for path in (user_config_file(), user_state_dir() / "secret"):
        name = str(path.relative_to(home))
        for tool, args in (
            ("file.read", {"path": name}),
            ("file.write", {"path": name, "content": "forged"}),
            ("file.list", {"path": str(path.parent.relative_to(home))}),
        ):
            result = called(chat_project, flags, tool, args)
            assert not result.success, (tool, name)
        assert path.read_text() == ""


@EVERY_MODE
@pytest.mark.spec("N7a")
def test_no_contained_command_reads_or_changes_state_and_configuration(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]
) -> None:
    if flags["sandbox.mode"] == "off":
        pytest.skip("commands are not contained: off is off")
    in_home(chat_project, monkeypatch)
    user_config_file().write_text("# secret\n")
    kept = user_state_dir() / "secret"
    kept.write_text("secret")
    script = f"cat {user_config_file()} {kept}; echo forged > {user_config_file()}; echo forged > {kept}; true"
    result = called(chat_project, flags, "shell.exec", {"command": script})
    assert "secret" not in result.output.replace("/secret", "")
    assert (user_config_file().read_text(), kept.read_text()) == ("# secret\n", "secret")


CONTAINED = pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])


@CONTAINED
@pytest.mark.parametrize("moved", [False, True], ids=["home", "xdg"])
@pytest.mark.spec("N7")
def test_a_root_that_contains_state_and_configuration_works_and_neither_is_read_or_created(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch, backend: str, moved: bool
) -> None:
    home = chat_project.root
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(home / variable)) if moved else monkeypatch.delenv(variable, raising=False)
    (home / "link").symlink_to(user_state_dir())
    config = user_config_file()
    script = (
        f"cat link/place {user_state_dir()}/place; mkdir -p {config.parent}; echo forged > {config}; "
        f"echo forged > link/forged; mv {user_state_dir().parent} gone; mv {config.parent.parent} gone; ls link; true"
    )
    result = called(
        chat_project, {"sandbox.mode": "required", "sandbox.backend": backend}, "shell.exec", {"command": script}
    )
    assert (user_state_dir() / "place").read_text() not in result.text
    assert not config.exists() and not list((home / "gone").rglob("place"))
    assert (user_state_dir() / "place").exists() and not (user_state_dir() / "forged").exists()
    for name in ("link/place", str(user_state_dir() / "place"), str(config)):
        for tool, args in (("file.read", {}), ("file.write", {"content": "x"}), ("code.search", {"query": "a"})):
            assert not called(chat_project, {}, tool, {"path": name, **args}).success, (tool, name)
    assert called(chat_project, {}, "file.write", {"path": "notes.txt", "content": "x"}).success


@pytest.mark.spec("N7", "A2")
def test_a_user_configuration_inside_the_project_loosens_only_when_trusted(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(chat_project.root / "config"))
    user_config_file().parent.mkdir(parents=True)
    user_config_file().write_text('[approval]\nrequire_approval = false\n[tools]\ndeny = ["calculator"]\n')
    project = load_project(chat_project.root)
    loaded = project.loaded
    assert loaded.config.approval.require_approval and loaded.config.tools.deny == ("calculator",)
    layer = loaded.layer("user")
    assert layer is not None and not layer.trusted
    project.trust.trust(user_config_file(), layer.digest, by="ann")
    assert not load_project(chat_project.root).loaded.config.approval.require_approval


@pytest.mark.spec("N7a", "N9")
def test_the_installation_of_holdfast_is_protected(chat_project: ChatProject, tmp_path: Path) -> None:
    package = Path(holdfast.__file__).parent
    dependency = Path(msgspec.__file__)
    for path in (package / "runtime" / "new.py", dependency, Path(sys.prefix, "bin", "holdfast"), Path(sys.executable)):
        assert protected_reason(path, root=chat_project.root) is not None, path
    assert protected_reason(package / "new.py", root=chat_project.root) == INSTALLED_REASON


@pytest.mark.spec("N7a")
def test_a_project_inside_the_environment_stays_ordinary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "conda"
    project = environment / "src" / "project"
    project.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(environment))
    assert environment in installation_paths()
    assert environment not in installation_paths(str(project))
    assert protected_reason(project / "a.py", root=project) is None
    assert protected_reason(environment / "lib" / "a.py", root=tmp_path) is not None


@EVERY_MODE
@pytest.mark.spec("N7a", "P4")
def test_changing_the_manifest_of_a_configured_skill_needs_approval(
    chat_project: ChatProject, flags: dict[str, Any]
) -> None:
    manifest = chat_project.root / "skills" / "sum" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    user_config_file().parent.mkdir(parents=True, exist_ok=True)
    user_config_file().write_text(f'[tools.skills]\nsum = "{manifest.parent}"\n')

    async def session() -> Verdict:
        async with opened(chat_project, flags) as runtime:
            decision = await runtime.judge("file.write", {"path": "skills/sum/manifest.json", "content": "x"})
            assert decision is not None
            return decision.verdict

    assert run(session()) is Verdict.ASK
    if flags["sandbox.mode"] != "off":
        called(chat_project, flags, "shell.exec", {"command": "echo forged > skills/sum/manifest.json || true"})
        assert manifest.read_text() == "{}"


@pytest.mark.spec("P4")
def test_a_skill_has_no_tools_until_its_manifest_is_trusted_and_after_it_changed(chat_project: ChatProject) -> None:
    manifest = chat_project.root / "skills" / "sum" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"permissions": {"tools": ["calculator"]}}')
    user_config_file().parent.mkdir(parents=True, exist_ok=True)
    user_config_file().write_text(f'[tools.skills]\nsum = "{manifest.parent}"\n')

    async def usable() -> bool:
        async with opened(chat_project, {}) as runtime:
            return runtime.access.usable("calculator", Caller(skill="sum")) is not None

    assert not run(usable())
    load_project(chat_project.root).trust.trust(manifest, digest_of(manifest.read_bytes()), by="ann")
    assert run(usable())
    manifest.write_text('{"permissions": {"tools": ["*"]}}')
    assert not run(usable())
