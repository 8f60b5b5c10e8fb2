"""`shell.exec`: results, approvals, and where it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Config, Result, Risk, State
from holdfast.config.config import ApprovalConfig, SandboxConfig, ToolsConfig
from holdfast.contract.call import PendingCall, RunConditions
from holdfast.contract.enums import Failure
from holdfast.text.preview import preview
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.command_helpers import Mode, config, shell_in
from tests.runtime.support import run, runtime_in


def _call(folder: Path, command: str, mode: Mode = "off", name: str = "shell.exec", **args: Any) -> Result:
    async def main() -> Result:
        async with shell_in(folder, mode) as runtime:
            return await runtime.call(name, {"command": command, **args})

    return run(main())


def _held(folder: Path, command: str, sandbox: SandboxConfig, **args: Any) -> PendingCall:
    asked = Config(approval=ApprovalConfig(auto_approve=()), sandbox=sandbox)

    async def main() -> PendingCall:
        async with runtime_in(folder, SHELL_EXEC, config=asked, nobody="pending") as runtime:
            result = await runtime.call("bash", {"command": command, **args})
            assert result.state is State.PENDING
            return runtime.pending.list()[0]

    return run(main())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo hello  ", "hello"),
        ("true", "(no output)"),
        ("printf 'a\\n\\n\\n'", "a"),
        ("echo out; echo err >&2", "out\nerr"),
    ],
)
@pytest.mark.spec("B4", "T11")
def test_the_result_is_the_output_of_the_command(tmp_path: Path, command: str, said: str) -> None:
    result = _call(tmp_path, command)
    assert (result.success, result.output) == (True, said)
    assert cast(Any, result.structured)["exit_code"] == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no; exit 3", "no\n\nCommand exited with code 3"),
        ("exit 1", "(no output)\n\nCommand exited with code 1"),
        ("echo x; kill -KILL $$", "x\n\nCommand was ended by SIGKILL"),
        ("nonexistent_program_", "nonexistent_program_: command not found\n\nCommand exited with code 127"),
    ],
)
@pytest.mark.spec("B4", "T11")
def test_a_failed_command_is_an_error_with_its_output(tmp_path: Path, command: str, said: str) -> None:
    result = _call(tmp_path, command)
    assert (result.success, result.failure, result.output) == (False, Failure.TOOL_ERROR, "")
    assert (result.error or "").endswith(said)


@pytest.mark.parametrize("command", ["", "  \n "])
@pytest.mark.spec("B4")
def test_an_empty_command_is_refused_before_approval(tmp_path: Path, command: str) -> None:
    assert _call(tmp_path, command).error == "No command provided"


@pytest.mark.parametrize(
    ("cwd", "said"), [("..", "outside"), ("/etc", "outside"), ("missing", "not a folder"), ("file", "not a folder")]
)
@pytest.mark.spec("B4", "N5")
def test_cwd_must_be_a_folder_of_the_project(tmp_path: Path, cwd: str, said: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "file").touch()
    assert said in (_call(tmp_path, "pwd", cwd=cwd).error or "")


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("B4", "N5")
def test_it_runs_in_the_requested_folder(tmp_path: Path, mode: Mode) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    assert _call(tmp_path, "pwd", mode, cwd="sub").output == str((tmp_path / "project" / "sub").resolve())
    assert _call(tmp_path, "pwd", mode).output == str((tmp_path / "project").resolve())


@pytest.mark.parametrize("name", ["shell.exec", "bash", "shell"])
@pytest.mark.spec("B4")
def test_it_has_aliases(tmp_path: Path, name: str) -> None:
    assert _call(tmp_path, "echo $((6*7))", name=name, label="try", timeout=None, cwd=None).output == "42"


@pytest.mark.spec("B4", "N2")
def test_the_environment_is_the_allow_list_plus_configured_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "leaked")
    base = config()
    tools = ToolsConfig(config={"shell.exec": {"env": {"ADDED": "yes"}, "shell": "/bin/sh"}})
    given = Config(sandbox=base.sandbox, approval=base.approval, tools=tools)

    async def main() -> Result:
        async with shell_in(tmp_path, config=given) as runtime:
            return await runtime.call("bash", {"command": 'env; echo "shell $0"'})

    text = run(main()).output
    assert "ADDED=yes" in text
    assert "shell /bin/sh" in text
    assert "leaked" not in text


@pytest.mark.spec("B4")
def test_stdin_is_empty(tmp_path: Path) -> None:
    assert _call(tmp_path, "read -r line || echo nothing").output == "nothing"


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"command": "make test", "label": "running tests"}, "bash: $ make test  # running tests"),
        ({"command": "a\nb"}, "bash: $ a↵b"),
    ],
)
@pytest.mark.spec("O1")
def test_the_preview_shows_the_command_and_its_label(args: dict[str, Any], shown: str) -> None:
    assert preview("bash", args, 80, SHELL_EXEC.format_preview) == shown


@pytest.mark.spec("T5", "T6", "X11", "N6")
def test_the_approval_shows_folder_containment_and_undo(tmp_path: Path) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    bare = _held(tmp_path, "rm -r build", SandboxConfig(mode="off", undo="off"), cwd="sub", label="clean").proposal
    assert bare is not None
    assert (bare.risk, bare.summary) == (Risk.HIGH, "rm -r build")
    assert (bare.preview, bare.preview_kind) == ("rm -r build", "text")
    assert bare.surroundings == RunConditions(
        where="./sub",
        sandbox="not contained; network on",
        undo='cannot be undone: undo is switched off (sandbox.undo = "off")',
    )


@pytest.mark.spec("O1")
def test_no_folder_name_can_imitate_the_words_for_the_root(tmp_path: Path) -> None:
    (tmp_path / "project" / "the project's root").mkdir(parents=True)
    held = _held(tmp_path, "make", SandboxConfig(mode="off"), cwd="the project's root").proposal
    assert held is not None and held.surroundings is not None
    assert held.surroundings.where == "./the project's root"


@pytest.mark.spec("T5", "T6", "X11")
def test_a_contained_command_is_less_risky_and_can_be_undone(tmp_path: Path) -> None:
    held = _held(tmp_path, "make", SandboxConfig(mode="required")).proposal
    assert held is not None
    assert held.risk is Risk.MEDIUM
    assert held.preview == "make"
    assert held.surroundings == RunConditions(
        where="the project's root",
        sandbox="contained by bubblewrap; network off",
        undo="changes to files can be undone",
    )


@pytest.mark.spec("T5", "X11")
def test_changed_paths_are_counted_and_protected_paths_reported(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)

    async def main() -> Result:
        async with shell_in(tmp_path, "required", sandbox={"undo": "auto"}) as runtime:
            plant = "mkdir -p sub/deep/.git/hooks && echo x > sub/deep/.git/hooks/pre-commit"
            return await runtime.call("shell.exec", {"command": f"echo a > a; echo b > b; {plant}; true"})

    result = run(main())
    assert result.success, result.error
    assert (project / "a").read_text() == "a\n"
    assert not (project / "sub/deep/.git/hooks/pre-commit").exists()
    structured = cast(Any, result.structured)
    assert structured["changed_paths"] >= 2
    assert any(path.endswith("pre-commit") for path in structured["violations"])
    assert "The sandbox prevented these changes:" in result.output


@pytest.mark.spec("N1", "B4")
def test_a_missing_required_sandbox_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.contract.errors import SandboxRefused
    from holdfast.sandbox.sandbox import Sandbox

    def refuse(*_: object, **__: object) -> None:
        raise SandboxRefused("nothing here can contain it.")

    monkeypatch.setattr(Sandbox, "launch", refuse)
    assert _call(tmp_path, "touch ran").error == "Sandbox error: nothing here can contain it."
    assert not (tmp_path / "project" / "ran").exists()


@pytest.mark.spec("T5", "X11")
def test_without_a_sandbox_the_approval_names_the_folders_that_can_be_undone(tmp_path: Path) -> None:
    held = _held(tmp_path, "make", SandboxConfig(mode="off", undo="copy")).proposal
    assert held is not None
    project = (tmp_path / "project").resolve()
    assert held.surroundings is not None
    assert held.surroundings.undo == (
        f"changes to files in {project} can be undone; other changes and what it sends cannot"
    )


@pytest.mark.spec("X11")
def test_a_command_that_changed_paths_says_how_to_undo_it(tmp_path: Path) -> None:
    async def main() -> tuple[Result, Result, Result]:
        async with shell_in(tmp_path, "off", sandbox={"undo": "copy"}) as runtime:
            one = await runtime.call("shell.exec", {"command": "echo a > a"})
            two = await runtime.call("shell.exec", {"command": "echo b > b; echo c > c; exit 2"})
            return one, two, await runtime.call("shell.exec", {"command": "echo same"})

    one, two, none = run(main())
    assert one.output == f"(no output)\n\n[Changed 1 path; holdfast undo {one.call_id} puts it back]"
    undo = f"[Changed 2 paths; holdfast undo {two.call_id} puts them back]"
    assert two.error == f"(no output)\n\n{undo}\n\nCommand exited with code 2"
    assert none.output == "same"


@pytest.mark.spec("N2", "B4")
def test_a_failed_contained_command_describes_its_sandbox(tmp_path: Path) -> None:
    failed = _call(tmp_path, "exit 1", "required").error or ""
    project = (tmp_path / "project").resolve()
    assert "[In the sandbox: network off; temporary files and the home folder are private to this call; " in failed
    assert failed.endswith(f"only {project} is writable]\n\nCommand exited with code 1")
    assert "sandbox" not in _call(tmp_path, "true", "required").output
    assert "sandbox" not in (_call(tmp_path, "exit 1").error or "")
