"""Complete turns of small models, one readable file each (tests/agent/scenarios)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.scenarios.scenario_player import play, read_sections

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


SMALL = """A turn with one of everything that can be expected.

>>> file a.py
A = 1
>>> you
Change A to 2 please
>>> model
[edit_file]
path: a.py
---search---
1
---replace---
2
[/edit_file]
>>> sees
Change A to 2 please
>>> sees not
A = 1
>>> happens
done file.edit path=a.py search=1 …
answered own_answers
>>> outcome
done
>>> answer
Successfully replaced text in a.py.
> 1 | A = 2
>>> after a.py
A = 2
>>> after b.py
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.mark.spec("M3", "M4", "P6")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_plays_as_written(scenario: Path, root: Path) -> None:
    play(scenario.read_text(), root)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("search=1 …", "search=2 …"),
        ("answered own_answers\n", ""),
        ("answered own_answers\n", "answered own_answers\n>>> model\nDone.\n"),
        (">>> sees\nChange A", ">>> sees\nChange B"),
        (">>> sees not\nA = 1", ">>> sees not\nChange A to 2 please"),
        ("outcome\ndone", "outcome\npending"),
        ("outcome\ndone", "outcome\ndone\nwith a message"),
        ("text in a.py.", "text in b.py."),
        ("after a.py\nA = 2", "after a.py\nA = 2\n\\ No newline at end of file"),
        (">>> after a.py\nA = 2", ">>> after a.py"),
        (">>> after b.py", ">>> after b.py\n\\ No newline at end of file"),
        (">>> sees\n", ">>> seas\n"),
    ],
)
def test_a_scenario_with_a_wrong_expectation_fails(right: str, wrong: str, root: Path) -> None:
    assert SMALL.count(right) == 1
    with pytest.raises(AssertionError):
        play(SMALL.replace(right, wrong), root)


@pytest.mark.spec("M4")
def test_the_same_scenario_unchanged_does_not_fail(root: Path) -> None:
    play(SMALL, root)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_has_a_title_and_an_expectation(scenario: Path) -> None:
    text = scenario.read_text()
    kinds = {section.kind for section in read_sections(text)}
    assert not text.startswith((">>>", "\n")) and {"you", "outcome"} <= kinds and kinds & {"happens", "answer", "after"}
