"""The tests every backend must pass. Subclass it in a test module and say which backend:

class TestMine(BackendConformance):
    def backend(self) -> Backend:
        return MyBackend()
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec.structs import replace

from holdfast.contract.command import Command
from holdfast.helper_process import isolated_python
from holdfast.sandbox import escape_tests
from holdfast.sandbox.escape_tests import HostFixture
from holdfast.sandbox.launch import Backend, run_launch


class BackendConformance:
    """What holds for a backend, whatever it is made of."""

    def backend(self) -> Backend:
        raise NotImplementedError

    def run(self, ground: HostFixture, script: str, **changes: object) -> tuple[int, str]:
        command = Command(argv=isolated_python("-c", script), cwd=ground.project)
        launch = self.backend().launch(ground.policy, replace(command, **changes), ())
        code, out, err = run_launch(launch, escape_tests.TIMEOUT)
        return code, (out + err).decode("utf-8", "replace")

    def test_it_holds_every_attack_it_claims_to_hold_and_no_other(self) -> None:
        found = escape_tests.run_escape_tests(self.backend())
        escaped = {case.name: case.detail for case in found if not case.contained}
        claimed = self.backend().guarantees
        assert not {name: detail for name, detail in escaped.items() if name in claimed}, escaped
        assert set(escaped) == set(escape_tests.ESCAPE_TESTS) - claimed

    def test_a_launch_starts_an_absolute_program_and_says_it_is_contained(self) -> None:
        with HostFixture() as ground:
            launch = self.backend().launch(ground.policy, Command(argv=("sh", "-c", "true"), cwd=ground.project), ())
            code, _out, _err = run_launch(launch, escape_tests.TIMEOUT)
        assert Path(launch.argv[0]).is_absolute()
        assert launch.contained
        assert code == 0

    def test_exit_code_and_both_streams_arrive(self) -> None:
        with HostFixture() as ground:
            command = Command(argv=("/bin/sh", "-c", "echo out; echo err >&2; exit 7"), cwd=ground.project)
            found = run_launch(self.backend().launch(ground.policy, command, ()), escape_tests.TIMEOUT)
        assert found == (7, b"out\n", b"err\n")

    def test_it_runs_where_it_was_told_with_the_variables_it_was_given(self) -> None:
        script = "import os; print(os.getcwd(), os.environ.get('GIVEN'), os.environ.get('LD_LIBRARY_PATH'))"
        given = {"GIVEN": "yes", "LD_LIBRARY_PATH": "/nowhere"}
        with HostFixture() as ground:
            code, said = self.run(ground, script, env=given)
            assert (code, said.split()) == (0, [str(ground.project), "yes", "/nowhere"])

    def test_a_read_only_command_writes_only_in_its_private_home(self) -> None:
        script = "import os; open(os.environ['HOME'] + '/x', 'w').close(); open('made', 'w').close()"
        with HostFixture() as ground:
            code, said = self.run(ground, script, read_only=True)
            assert code != 0
            assert "made" in said
            assert not (ground.project / "made").exists()

    def test_a_command_that_sees_the_project_only_does_not_see_the_home_folder(self) -> None:
        with tempfile.TemporaryDirectory(dir=Path.home()) as elsewhere, HostFixture() as ground:
            Path(elsewhere, "private").write_text("x", encoding="utf-8")
            code, said = self.run(ground, "open('Makefile')", sees="project", read_only=True)
            assert (code, said) == (0, "")
            code, said = self.run(ground, f"open('{elsewhere}/private')", sees="project", read_only=True)
            assert code == 1
            assert "Error" in said

    def test_words_of_the_command_are_not_taken_for_open_files(self) -> None:
        with HostFixture() as ground:
            command = Command(argv=("/bin/echo", "{fd0}", "--", "{fd1}"), cwd=ground.project)
            _code, out, _err = run_launch(self.backend().launch(ground.policy, command, ()), escape_tests.TIMEOUT)
        assert out == b"{fd0} -- {fd1}\n"

    def test_nothing_is_left_of_a_run_on_the_host(self) -> None:
        with HostFixture() as ground:
            before = sorted(str(path) for path in ground.base.rglob("*"))
            assert self.run(ground, "pass") == (0, "")
            assert sorted(str(path) for path in ground.base.rglob("*")) == before
