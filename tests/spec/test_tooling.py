"""`make spec` and `make spec-mutants`, run on small projects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from scripts.guards import guard_problem
from scripts.manifest import MANIFEST, ManifestError, covered_by, is_mutant, load_manifest
from scripts.pytest_spec import Record
from scripts.spec import find_problems

REPOSITORY = Path(__file__).resolve().parents[2]

GUARDED = """
from functools import lru_cache

def refuse(number):
    if number < 0:
        raise ValueError("negative")
    return number

async def fetch(number):
    return number + 1

def count(limit):
    yield from range(limit)

@lru_cache
def twice(number):
    return 2 * number

class Door:
    @property
    def open(self):
        return True

    @staticmethod
    def key(word):
        return word.upper()

    def knock(self, times, *, loudly=False):
        return times if not loudly else 10 * times
"""
HOLDER = """
from guarded import refuse

TABLE = {"refuse": refuse}
"""


def project(folder: Path, manifest: str, tests: str) -> Path:
    (folder / "guarded.py").write_text(GUARDED)
    (folder / "holder.py").write_text(HOLDER)
    (folder / "manifest.toml").write_text(dedent(manifest))
    (folder / "conftest.py").write_text('pytest_plugins = ["scripts.pytest_spec"]\n')
    (folder / "test_it.py").write_text("import asyncio, subprocess, sys\nimport pytest\n" + dedent(tests))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider -p no:schemathesis\n")
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SPEC"))}
    environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), str(folder)])
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environ["PYTEST_PLUGINS"] = "xdist.plugin"
    arguments = [sys.executable, "-m", *command]
    return subprocess.run(arguments, cwd=folder, env=environ, capture_output=True, text=True, timeout=100, check=False)


def check_spec(folder: Path) -> subprocess.CompletedProcess[str]:
    run(folder, "pytest", "-q", "--spec-report=report.json")
    return run(folder, "scripts.spec", "report.json", "--manifest", "manifest.toml")


def run_mutants(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "scripts.mutants", "--manifest", "manifest.toml", "--workers", "1", *options)


DONE = """
    [A1]
    says = "Negative numbers are refused."
    status = "done"
    guard = "guarded:refuse"
    """


def test_a_requirement_is_listed_with_the_names_of_its_passing_tests(tmp_path: Path) -> None:
    tests = """
        import holder

        @pytest.mark.spec("A1")
        @pytest.mark.parametrize("number", [-1, -2])
        def test_negatives(number):
            with pytest.raises(ValueError, match="negative"):
                holder.TABLE["refuse"](number)
        """
    answer = check_spec(project(tmp_path, DONE, tests))
    assert answer.returncode == 0, answer.stdout
    assert "A1   done           2  Negative numbers are refused." in answer.stdout
    assert "negatives" in answer.stdout
    assert "1 of 1 requirements are done; 2 tests ran." in answer.stdout


def test_an_unknown_id_in_a_marker_fails(tmp_path: Path) -> None:
    tests = """
        @pytest.mark.spec("A1", "Z9")
        def test_something(): pass
        """
    answer = check_spec(project(tmp_path, DONE, tests))
    assert answer.returncode == 1
    assert "test_it.py::test_something is marked with 'Z9', which is not in the manifest." in answer.stdout


@pytest.mark.parametrize(
    "tests",
    [
        "def test_without_a_marker(): pass",
        '@pytest.mark.spec("A1")\ndef test_failing(): assert False',
        '@pytest.mark.spec("A1")\n@pytest.mark.skip\ndef test_skipped(): pass',
        '@pytest.fixture\ndef broken(): raise OSError\n\n@pytest.mark.spec("A1")\ndef test_error(broken): pass',
    ],
)
def test_a_done_requirement_without_a_passing_test_fails(tmp_path: Path, tests: str) -> None:
    answer = check_spec(project(tmp_path, DONE, tests))
    assert answer.returncode == 1
    assert "A1 is marked done, but no passing test is marked with it." in answer.stdout


def test_a_done_requirement_with_a_passing_and_a_failing_test_fails() -> None:
    manifest = load_manifest(REPOSITORY / MANIFEST)
    name = next(iter(manifest))
    done = {name: manifest[name].__class__(id=name, says="…", status="done", guard="json:loads")}
    tests: list[Record] = [
        {"id": "a", "spec": [name], "outcome": "passed"},
        {"id": "b", "spec": [name], "outcome": "failed"},
    ]
    assert [*find_problems(done, tests)] == [f"{name} is marked done, but b fails."]


def test_a_test_of_a_part_proves_the_part_and_the_whole_requirement() -> None:
    assert covered_by("A13", "A13a")
    assert covered_by("A13a", "A13a")
    assert not covered_by("A13a", "A13")
    assert not covered_by("A1", "A13")
    assert not covered_by("A13b", "A13a")


def test_reports_of_several_xdist_workers_are_combined(tmp_path: Path) -> None:
    tests = """
        @pytest.mark.spec("A1")
        @pytest.mark.parametrize("number", range(6))
        def test_many(number): assert number != 3
        """
    folder = project(tmp_path, DONE, tests)
    run(folder, "pytest", "-q", "-n", "2", "--spec-report=report.json")
    records = json.loads((folder / "report.json").read_text())
    assert [record["outcome"] for record in sorted(records, key=lambda record: record["id"])] == [
        "passed", "passed", "passed", "failed", "passed", "passed",
    ]  # fmt: skip
    assert {tuple(record["spec"]) for record in records} == {("A1",)}


def test_a_mutant_that_no_test_notices_is_reported(tmp_path: Path) -> None:
    tests = """
        import guarded

        @pytest.mark.spec("A1")
        def test_that_proves_nothing(): assert guarded
        """
    answer = run_mutants(project(tmp_path, DONE, tests))
    assert answer.returncode == 1
    assert "✗ A1   guarded:refuse (raise) survived: all 1 tests pass without it" in answer.stdout


def test_a_guard_that_the_tests_never_import_survives(tmp_path: Path) -> None:
    answer = run_mutants(project(tmp_path, DONE, '@pytest.mark.spec("A1")\ndef test_nothing(): pass'))
    assert answer.returncode == 1
    assert "survived: its tests never import the guard" in answer.stdout


IN_A_CHILD = """
    code = "import guarded; assert guarded.refuse(3) == 3"
    subprocess.run([sys.executable, "-c", code], check=True{})
    assert guarded"""
NOTICED = [
    ("refuse", "raise", "assert guarded.refuse(1) == 1"),
    ("refuse", "return:args0", "with pytest.raises(ValueError): guarded.refuse(number=-1)"),
    ("refuse", "return:args0", "with pytest.raises(ValueError): holder.TABLE['refuse'](-1)"),
    ("fetch", "return:None", "assert asyncio.run(guarded.fetch(1)) == 2"),
    ("fetch", "raise", "assert asyncio.run(guarded.fetch(1)) == 2"),
    ("count", "return:None", "assert list(guarded.count(2)) == [0, 1]"),
    ("twice", "return:True", "assert guarded.twice(2) == 4"),
    ("Door.open", "return:False", "assert guarded.Door().open"),
    ("Door.key", "return:args0", "assert guarded.Door.key('a') == 'A'"),
    ("Door.knock", "return:args0", "assert guarded.Door().knock(2, loudly=True) == 20"),
    ("Door.knock", "return:args1", "assert guarded.Door().knock(2) == 2"),
    ("refuse", "return:0", IN_A_CHILD.format("")),
    ("refuse", "return:0", IN_A_CHILD.format(", env={'PYTHONPATH': '.'}")),
]


def test_a_test_fails_when_its_guard_is_disabled(tmp_path: Path) -> None:
    manifest = tests = ""
    for number, (guard, mutant, body) in enumerate(NOTICED):
        manifest += f'[A{number}]\nsays = "x"\nstatus = "done"\nguard = "guarded:{guard}"\nmutant = "{mutant}"\n'
        tests += f'@pytest.mark.spec("A{number}")\ndef test_{number}():\n    {body}\n\n'
    answer = run_mutants(project(tmp_path, manifest, f"import guarded, holder\n\n{tests}"))
    for number, (guard, mutant, _) in enumerate(NOTICED):
        assert f"A{number:<4}guarded:{guard} ({mutant}) caught: by test_{number}" in answer.stdout, answer.stdout
    assert answer.returncode == 0


def test_a_mutant_that_only_breaks_the_import_is_unusable(tmp_path: Path) -> None:
    tests = """
        import guarded
        guarded.refuse(1)

        @pytest.mark.spec("A1")
        def test_refusal():
            with pytest.raises(ValueError): guarded.refuse(-1)
        """
    answer = run_mutants(project(tmp_path, DONE, tests))
    assert answer.returncode == 1
    assert "unusable: the mutant breaks the import of the tests" in answer.stdout


def test_a_requirement_whose_tests_fail_without_a_mutant_is_unusable(tmp_path: Path) -> None:
    tests = """
        import guarded

        @pytest.mark.spec("A1")
        def test_passing(): assert guarded.refuse(1) == 1

        @pytest.mark.spec("A1")
        def test_failing(): assert False
        """
    answer = run_mutants(project(tmp_path, DONE, tests))
    assert answer.returncode == 1
    assert "unusable: test_it.py::test_failing fails with all guards enabled" in answer.stdout


def test_a_test_that_hangs_without_the_guard_counts_as_caught(tmp_path: Path) -> None:
    tests = """
        import guarded, time

        @pytest.mark.spec("A1")
        def test_that_would_wait_for_ever():
            if guarded.refuse(1) != 1: time.sleep(600)
        """
    answer = run_mutants(project(tmp_path, DONE + 'mutant = "return:None"\n', tests), "--timeout", "5")
    assert answer.returncode == 0
    assert "caught: its tests did not finish within 5 s" in answer.stdout


def test_only_the_selected_requirements_are_tried(tmp_path: Path) -> None:
    manifest = DONE + DONE.replace("A1", "A2")
    tests = """
        import guarded

        @pytest.mark.spec("A1")
        def test_one(): assert guarded.refuse(1) == 1

        @pytest.mark.spec("A2")
        def test_two(): assert guarded.refuse(2) == 2
        """
    folder = project(tmp_path, manifest, tests)
    answer = run_mutants(folder, "--only", "A2")
    assert answer.returncode == 0
    assert "test_two" in answer.stdout
    assert "test_one" not in answer.stdout
    assert "requirement A3: not marked done" in run_mutants(folder, "--only", "A3").stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[a1]\nsays = "x"\nstatus = "done"', "the id must be a capital letter"),
        ('[A1]\nsays = ""\nstatus = "planned"', "`says` must be a sentence"),
        ('[A1]\nsays = "x"\nstatus = "soon"', "`status` must be planned or done"),
        ('[A1]\nsays = "x"\nstatus = "done"', "a done requirement needs a `guard`"),
        ('[A1]\nsays = "x"\nstatus = "planned"\nguard = "nonsense"', "`guard` must be module:qualname"),
        ('[A1]\nsays = "x"\nstatus = "planned"\nmutant = "return:open()"', "`mutant` must be"),
        ('[A1]\nsays = "x"\nstatus = "planned"\ncolour = 1', "unknown field colour"),
        ("[A1", "Expected ']'"),
    ],
)
def test_an_invalid_manifest_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(text)
    with pytest.raises(ManifestError, match=why):
        load_manifest(path)


def test_a_mutant_raises_or_returns_a_literal_or_an_argument() -> None:
    assert all(map(is_mutant, ["raise", "return:None", "return:True", "return:[]", "return:'x'", "return:args0"]))
    assert not any(map(is_mutant, ["", "raise:x", "return", "return:", "return:f()", "pass"]))


def test_a_guard_that_does_not_exist_is_reported() -> None:
    assert guard_problem("json:loads") is None
    assert guard_problem("json:JSONEncoder.encode") is None
    assert guard_problem("json:nothing") == "which json does not have"
    assert guard_problem("json:JSONEncoder") == "which is not a function but type"
    assert "cannot be imported" in str(guard_problem("no_such_module:x"))


def test_the_manifest_of_this_repository_is_valid() -> None:
    manifest = load_manifest(REPOSITORY / MANIFEST)
    assert len(manifest) > 100
    sentences = [requirement.says for requirement in manifest.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in sentences)
