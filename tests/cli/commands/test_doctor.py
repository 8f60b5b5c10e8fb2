"""`holdfast doctor`: its findings, and how it prints them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from holdfast.cli.commands import doctor
from holdfast.helper_process import PROGRAM_FOLDERS
from holdfast.sandbox.escape_tests import ESCAPE_TESTS
from holdfast.store.memory.embedders import SmallEncoder
from tests.cli.command_line import Cli, Json
from tests.cli.terminal import Terminal


def named(lines: list[Json], name: str) -> list[Json]:
    return [line for line in lines if line["name"] == name]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, str]:
    """One run on a terminal with the escape tests, shared by several tests because it takes seconds."""
    cli = Cli.in_folder(tmp_path_factory.mktemp("doctor"))
    with Terminal(cli, "doctor", columns=300) as person:
        assert person.finish() == 0
        return cli, person.raw


def painted(raw: str) -> list[str]:
    """Return the final lines, without colours and progress messages."""
    return [re.sub(r".*\r\x1b\[K|\x1b\[[0-9;]*m", "", line).rstrip() for line in raw.replace("\r\n", "\n").split("\n")]


@pytest.mark.spec("N1", "N6", "E1e")
def test_it_runs_the_escape_tests_and_prints_the_result_for_this_user(whole: tuple[Cli, str]) -> None:
    cli, raw = whole
    lines = painted(raw)
    (first, *others) = [line for line in lines if "  backend   " in line]
    assert first.startswith("  ok    backend   bubblewrap ")
    assert first.endswith(f" passed {len(ESCAPE_TESTS)} of {len(ESCAPE_TESTS)} escape tests as user {os.geteuid()}")
    assert all("not tested" in line for line in others)
    (sandbox,) = [line for line in lines if "  sandbox   " in line]
    assert sandbox.startswith("  ok    sandbox   commands run in bubblewrap ")
    assert not Path(cli.env["XDG_STATE_HOME"]).exists()


@pytest.mark.spec("E1e")
def test_findings_are_grouped_and_printed_as_they_are_found(whole: tuple[Cli, str]) -> None:
    lines = painted(whole[1])
    heads = [line for line in lines if line and not line.startswith(" ")]
    assert heads == ["holdfast", "project", "optional", "sandbox"]
    at = {name: lines.index(name) for name in heads}
    assert any(line.startswith("  ok    terminal ") for line in lines[at["holdfast"] : at["project"]])
    assert [line.split()[1] for line in lines[at["project"] + 1 : at["optional"]]] == [
        "config", "project", "state", "ledger",
    ]  # fmt: skip


@pytest.mark.spec("E1b", "E1e")
def test_progress_is_shown_and_removed(whole: tuple[Cli, str]) -> None:
    raw = whole[1]
    for words in (
        "verifying the ledger…",
        "testing the sandbox (bubblewrap ",
        f": {len(ESCAPE_TESTS)} of {len(ESCAPE_TESTS)}…",
    ):
        assert words in raw
    assert raw.index("python") < raw.index("testing the sandbox")
    assert not [line for line in painted(raw) if "…" in line]


@pytest.mark.spec("E1e")
def test_a_missing_program_comes_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"apt-get": "/usr/bin/apt-get"}
    monkeypatch.setattr(doctor, "system_program", there.get)
    nothing: dict[object, str] = {}
    for search in ("find_ripgrep", "find_spec"):
        monkeypatch.setattr(doctor, search, nothing.get)
    monkeypatch.setattr("holdfast.tools.schemas.find_spec", nothing.get)
    found = {finding.name: finding for finding in doctor._programs(None)}  # pyright: ignore[reportPrivateUsage]
    programs = ("git", "ripgrep", "models", "watch", "memory", "browser")
    families = ("web", "media", "speech", "storage", "k8s", "google")
    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys((*programs, *families), "note")
    assert found["git"].fix == "`sudo apt install git`"
    assert found["ripgrep"].fix == "`sudo apt install ripgrep` or `pip install 'holdfast[search]'`"
    assert all(f"pip install 'holdfast[{name}]'" in found[name].text for name in ("web", "media", "k8s"))
    assert "pip install 'holdfast[browser]'" in found["browser"].text
    assert found["models"].fix == "`pip install 'holdfast[models]'`"
    there.clear()
    assert doctor.how_to_install("git") == "install git"


@pytest.mark.spec("E1e")
def test_a_family_that_lacks_its_configuration_says_what_to_set() -> None:
    found = {finding.name: finding for finding in doctor._programs(None)}  # pyright: ignore[reportPrivateUsage]
    assert (found["k8s"].status, found["media"].status) == ("ok", "ok")
    for name, option in (("storage", "minio.endpoint"), ("google", "google.client_id"), ("speech", "whisper_model")):
        assert found[name].status == "note" and option in found[name].text


@pytest.mark.spec("E1e")
def test_the_embedder_is_the_one_that_a_search_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_found(module: str) -> object:
        return None if module == "onnxruntime" else object()

    monkeypatch.setattr(doctor, "find_spec", is_found)
    found = {finding.name: finding for finding in doctor._programs(None)}  # pyright: ignore[reportPrivateUsage]
    small = f"searched by meaning with {SmallEncoder.name}"
    assert (found["memory"].status, found["memory"].text) == ("ok", small)


@pytest.mark.spec("E1e")
@pytest.mark.parametrize(("user", "status"), [(0, "note"), (1000, "ok")])
def test_chromium_without_its_own_sandbox_is_noted(monkeypatch: pytest.MonkeyPatch, user: int, status: str) -> None:
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    nothing: dict[object, str] = {}
    monkeypatch.setattr(doctor.chromium, "missing", nothing.get)
    found = {finding.name: finding for finding in doctor._programs(None)}  # pyright: ignore[reportPrivateUsage]
    assert found["browser"].status == status
    assert ("without its own sandbox" in found["browser"].text) is (user == 0)


@pytest.mark.spec("E1a", "E1e")
def test_without_a_project_and_a_terminal_it_says_what_to_do(cli: Cli) -> None:
    (cli.project / ".git").rmdir()
    cli.configure('[sandbox]\nmode = "off"\n')
    findings = {line["name"]: line for line in cli.run("doctor", "--json").lines}
    assert (findings["project"]["status"], findings["terminal"]["status"]) == ("note", "note")
    assert findings["project"]["fix"] == "run `holdfast init` in the project's directory"


@pytest.mark.spec("N6")
def test_failed_escape_tests_are_listed_with_their_consequence(cli: Cli) -> None:
    cli.configure('[sandbox]\nbackend = "landlock"\n')
    done = cli.run("doctor")
    assert done.code == 0
    for name in ("change-protected", "create-protected", "rename-parent", "host-processes"):
        assert f" failed {name}: " in done.out
    assert "note  sandbox   commands run in landlock" in done.out
    assert "none is auto-approved for being sandboxed. Fix: " in done.out


@pytest.mark.spec("N1")
def test_a_disabled_sandbox_is_reported(cli: Cli) -> None:
    cli.configure('[sandbox]\nmode = "off"\n')
    done = cli.run("doctor")
    assert done.code == 0
    assert 'note  sandbox   disabled (sandbox.mode = "off"): commands run without a sandbox' in done.out
    assert "backend" not in done.out


@pytest.mark.spec("N1")
def test_an_unknown_backend_is_an_error_that_lists_the_backends(cli: Cli) -> None:
    cli.configure('[sandbox]\nbackend = "jail"\n')
    done = cli.run("doctor")
    assert done.code == 1
    assert "bad   config    sandbox.backend is 'jail', which is unknown. Use \"auto\" or one of: " in done.out


@pytest.mark.spec("N1", "N6")
@pytest.mark.parametrize(("mode", "code", "status"), [("required", 1, "bad"), ("auto", 0, "note")])
def test_without_a_backend_it_says_what_is_refused(cli: Cli, mode: str, code: int, status: str) -> None:
    cli.configure(f'[sandbox]\nmode = "{mode}"\n')
    site = cli.project.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.platform = 'plan9'\n")
    done = cli.run("doctor", "--json", env={"PYTHONPATH": str(site)})
    assert done.code == code
    (sandbox,) = named(done.lines, "sandbox")
    assert sandbox["status"] == status
    assert "there is no backend for plan9" in sandbox["text"]
    assert ("all commands are refused" if mode == "required" else "each command needs your approval") in sandbox["text"]


@pytest.mark.spec("B3")
def test_git_is_looked_for_where_the_git_tools_look(cli: Cli) -> None:
    done = cli.run("--set", "sandbox.mode=off", "doctor", "--json", env={"PATH": ""})
    (found,) = named(done.lines, "git")
    there = next((path for folder in PROGRAM_FOLDERS if (path := Path(folder, "git")).is_file()), None)
    assert found["text"] == str(there or "not found; the git tools need it")
