"""Conformance tests for sandbox backends. Subclass the suite in a test module:

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
    """What every backend must do."""

    def backend(self) -> Backend:
        raise NotImplementedError

    def run(self, host: HostFixture, script: str, **changes: object) -> tuple[int, str]:
        command = Command(argv=isolated_python("-c", script), cwd=host.project)
        launch = self.backend().launch(host.policy, replace(command, **changes), ())
        code, out, err = run_launch(launch, escape_tests.TIMEOUT)
        return code, (out + err).decode("utf-8", "replace")

    def test_it_contains_exactly_the_attacks_it_claims_to_contain(self) -> None:
        found = escape_tests.run_escape_tests(self.backend())
        escaped = {case.name: case.detail for case in found if not case.contained}
        claimed = self.backend().guarantees
        assert not {name: detail for name, detail in escaped.items() if name in claimed}, escaped
        assert set(escaped) == set(escape_tests.ESCAPE_TESTS) - claimed

    def test_a_launch_has_an_absolute_program_and_is_marked_as_contained(self) -> None:
        with HostFixture() as host:
            launch = self.backend().launch(host.policy, Command(argv=("sh", "-c", "true"), cwd=host.project), ())
            code, _out, _err = run_launch(launch, escape_tests.TIMEOUT)
        assert Path(launch.argv[0]).is_absolute()
        assert launch.contained
        assert code == 0

    def test_the_exit_code_and_both_streams_are_returned(self) -> None:
        with HostFixture() as host:
            command = Command(argv=("/bin/sh", "-c", "echo out; echo err >&2; exit 7"), cwd=host.project)
            found = run_launch(self.backend().launch(host.policy, command, ()), escape_tests.TIMEOUT)
        assert found == (7, b"out\n", b"err\n")

    def test_a_command_runs_in_the_given_folder_with_the_given_variables(self) -> None:
        script = "import os; print(os.getcwd(), os.environ.get('GIVEN'), os.environ.get('LD_LIBRARY_PATH'))"
        given = {"GIVEN": "yes", "LD_LIBRARY_PATH": "/nowhere"}
        with HostFixture() as host:
            code, output = self.run(host, script, env=given)
            assert (code, output.split()) == (0, [str(host.project), "yes", "/nowhere"])

    def test_a_read_only_command_writes_only_in_its_private_home(self) -> None:
        script = "import os; open(os.environ['HOME'] + '/x', 'w').close(); open('made', 'w').close()"
        with HostFixture() as host:
            code, output = self.run(host, script, read_only=True)
            assert code != 0
            assert "made" in output
            assert not (host.project / "made").exists()

    def test_a_command_that_sees_only_the_project_cannot_read_the_home_folder(self) -> None:
        with tempfile.TemporaryDirectory(dir=Path.home()) as elsewhere, HostFixture() as host:
            Path(elsewhere, "private").write_text("x", encoding="utf-8")
            code, output = self.run(host, "open('Makefile')", sees="project", read_only=True)
            assert (code, output) == (0, "")
            code, output = self.run(host, f"open('{elsewhere}/private')", sees="project", read_only=True)
            assert code == 1
            assert "Error" in output

    def test_arguments_that_look_like_descriptor_placeholders_are_left_alone(self) -> None:
        with HostFixture() as host:
            command = Command(argv=("/bin/echo", "{fd0}", "--", "{fd1}"), cwd=host.project)
            _code, out, _err = run_launch(self.backend().launch(host.policy, command, ()), escape_tests.TIMEOUT)
        assert out == b"{fd0} -- {fd1}\n"

    def test_a_run_leaves_nothing_on_the_host(self) -> None:
        with HostFixture() as host:
            before = sorted(str(path) for path in host.base.rglob("*"))
            assert self.run(host, "pass") == (0, "")
            assert sorted(str(path) for path in host.base.rglob("*")) == before
