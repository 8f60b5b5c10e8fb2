"""Backend registration, order and probing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError, SandboxRefused
from holdfast.sandbox.launch import Backend, Launch, Overlay
from holdfast.sandbox.policy import SandboxPolicy
from holdfast.sandbox.probe import backends, register
from tests.sandbox.sandboxed_commands import bubblewraps


@pytest.mark.spec("N1")
def test_the_newest_bubblewrap_comes_first_and_landlock_last() -> None:
    found = backends()
    assert [one.version for one in bubblewraps()] == sorted((one.version for one in bubblewraps()), reverse=True)
    assert found[-1].name == "landlock"
    assert found[0].name == "bubblewrap"


class Mine:
    name = "mine"
    title = "mine"
    priority = 60
    identity = "mine 1"
    guarantees = frozenset[str]()

    def available(self) -> str | None:
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        raise SandboxRefused("never")


@pytest.mark.spec("N1")
def test_a_third_party_registers_and_removes_a_backend() -> None:
    def make() -> list[Backend]:
        return [Mine()]

    remove = register("mine", make)
    try:
        assert backends()[0].name == "mine"
        assert [one.name for one in backends("mine")] == ["mine"]
        with pytest.raises(ConfigError, match="already"):
            register("mine", make)
    finally:
        remove()
    assert "mine" not in {one.name for one in backends()}
    with pytest.raises(ConfigError, match=r'"auto" or one of: bubblewrap, landlock'):
        backends("mine")


@pytest.mark.spec("N1")
def test_the_probe_fails_on_a_kernel_without_user_namespaces(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from holdfast.config.config import SandboxConfig;"
        "from holdfast.sandbox.sandbox import Sandbox;"
        "one = Sandbox(SandboxConfig(mode='required', backend='bubblewrap'), root=Path.cwd(), remember=False);"
        "print(one.backend(), one.passes_escape_tests(), one.problem())"
    )
    locked = [bubblewraps()[0].path, "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--dev-bind", "/", "/"]
    done = subprocess.run(
        [*locked, "--", sys.executable, "-c", script], cwd=tmp_path, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.startswith(b"None False bubblewrap: it failed its probe (usable: it ended with 1"), done
