"""Everything in a command text that may be a path."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.path_mentions import MAX_TEXT, TooManyPaths, find_path_mentions, without_outputs


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "text",
    [
        "sh build.sh",
        "sh 'build.sh'",
        "sh bui''ld.sh",
        "make --file=build.sh",
        "curl -d @build.sh x",
        "tar -xzfbuild.sh",
        "sh $PWD/build.sh",
        "bash -c $'build\\x2esh'",
        "cat <<E | sh\nbuild.sh\nE",
        "pytest build.sh::test_x",
    ],
)
def test_a_name_is_found_however_it_is_written(text: str) -> None:
    assert "build.sh" in find_path_mentions(text).words


@pytest.mark.spec("A12")
def test_parent_folders_and_modules_are_mentioned_too() -> None:
    assert {"a/b/c.py", "a/b", "a"} <= set(find_path_mentions("cat a/b/c.py").words)
    assert {"pkg/mod.py", "pkg/__init__.py", "pkg/mod/__main__.py"} <= set(
        find_path_mentions("python -m pkg.mod").words
    )


@pytest.mark.spec("A12")
def test_globs_are_kept_and_braces_are_expanded() -> None:
    found = find_path_mentions("sh ./b*.sh {x,y}.sh a[12].sh")
    assert {"./b*.sh", "a?.sh"} <= set(found.patterns)
    assert {"x.sh", "y.sh"} <= set(found.words)
    assert not found.all_names and find_path_mentions("shopt -s dotglob; ls *").all_names


@pytest.mark.spec("A12")
def test_a_name_that_is_only_written_is_replaced_by_a_marker() -> None:
    assert "out" not in without_outputs("cc x.c -o out")
    assert "out" in without_outputs("cc x.c -o out; ./out")
    assert without_outputs("unzip -o out") == "unzip -o out"


@pytest.mark.spec("A12")
@pytest.mark.parametrize("text", ["x" * (MAX_TEXT + 1), "ls {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"])
def test_a_text_over_a_limit_raises(text: str) -> None:
    with pytest.raises(TooManyPaths):
        find_path_mentions(text)
