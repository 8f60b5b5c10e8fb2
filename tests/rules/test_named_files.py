"""The project files that a command names, and how an approval is bound to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.rules import named_files as module
from holdfast.rules.named_files import named_files
from holdfast.rules.shell import path_mentions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("build.sh", "tool.py", "run", "x.mk", "sub/build.sh", "sub/deep/y.py", "pkg/mod.py", "pkg/__main__.py",
                 "a b.sh", "data.txt", "out", "pack/__init__.py", "pack/part/__init__.py", "pack/part/one.py",
                 "site.js", "gem.rb"):  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "outside.sh").write_text("outside")
    return root


def named(project: Path, command: str, *folders: Path) -> list[str]:
    found = named_files(command, [str(folder) for folder in folders or (project,)], str(project))
    return [file.path for file in found]


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("sh build.sh", ["build.sh"]),
        ("python tool.py --fast", ["tool.py"]),
        ("./run", ["run"]),
        ("make -f x.mk test", ["x.mk"]),
        ("make --file=x.mk", ["x.mk"]),
        ("make -fx.mk", ["x.mk"]),
        ("python -m pkg.mod", ["pkg/mod.py"]),
        ("python -m pkg", ["pkg/__main__.py"]),
        ("sh < build.sh", ["build.sh"]),
        ("cat build.sh | sh", ["build.sh"]),
        (". ./build.sh && source run", ["build.sh", "run"]),
        ("bash -c 'sh build.sh'", ["build.sh"]),
        ("env X=1 timeout 5 sh build.sh", ["build.sh"]),
        ("BASH_ENV=./run bash -c true", ["run"]),
        ("cd sub && sh build.sh", ["build.sh", "sub/build.sh"]),
        ("cd sub; cd deep; python y.py", ["sub/deep/y.py"]),
        ("make -C sub -f build.sh", ["build.sh", "sub/build.sh"]),
        ("sh 'a b.sh' \"build.sh\" ru\\n", ["a b.sh", "build.sh", "run"]),
        ("echo $(sh build.sh) `./run`", ["build.sh", "run"]),
        ("if true; then sh build.sh; fi & (./run)", ["build.sh", "run"]),
        ("f() { sh build.sh; }; f", ["build.sh"]),
        ("xargs -o ./run", ["run"]),
        ("curl -d @data.txt http://x", ["data.txt"]),
        ("cc -o out data.txt", ["data.txt"]),
        ("cc --output=out data.txt > run", ["data.txt"]),
        ("sh sub/../build.sh", ["build.sh"]),
        ("touch run && rm -f data.txt; chmod +x build.sh", []),
        ("touch run && sh build.sh", ["build.sh", "run"]),
        ("mkdir -p x; cat > x/new <<'EOF'\nbuild.sh * ./run\nEOF", []),
        ("cat > run <<EOF\n$(sh build.sh)\nEOF", ["build.sh"]),
        ("cat > run < build.sh", ["build.sh"]),
        ("cat <<EOF | sh\n./run\nEOF", ["run"]),
        ("touch $(cat data.txt)", ["data.txt"]),
        ("cp data.txt run", ["data.txt", "run"]),
        ("sh ./b*.sh", ["build.sh"]),
        ("cd sub && sh bu?ld.sh", ["build.sh", "sub/build.sh"]),
        ("sh *.nothing $X ~/x", []),
        ("sh <<< '. ./run'", ["run"]),
        ("sh <<EOF\n. ./run\nEOF", ["run"]),
        ('eval "$(< build.sh)"', ["build.sh"]),
        ("sh ../outside.sh", []),
        ("sh missing.sh", []),
        ("echo build sh", []),
        ("ls sub", []),
        ("sh build.sh 'unclosed", ["build.sh"]),
        ("true > build.sh; sh build.sh", ["build.sh"]),
        ("sh 0<> build.sh", ["build.sh"]),
        ("coverage run -m tool", ["run", "tool.py"]),
    ],
)
def test_plain_words_of_every_simple_command_are_looked_up(project: Path, command: str, files: list[str]) -> None:
    assert named(project, command) == files


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("make -f build.sh -C sub", "sub/build.sh"),
        ("make -f build.sh -Csub", "sub/build.sh"),
        ("f() { sh build.sh; }; cd sub && f", "sub/build.sh"),
        ("PATH=$PATH:sub; build.sh", "sub/build.sh"),
        ("cd $(dirname sub/deep) && sh build.sh", "sub/build.sh"),
        ("cd deep; python y.py; CDPATH=sub", "sub/deep/y.py"),
        ("for f in build.sh; do sh $f; done", "build.sh"),
        ("for f in bui'ld'.sh; do sh $f; done", "build.sh"),
        ("select f in build.sh; do sh $f; done", "build.sh"),
        ("select f in 'a b.sh'; do sh \"$f\"; done", "a b.sh"),
        ("A=(build.sh run); sh ${A[0]}", "build.sh"),
        ("A=([3]=bu\"ild\".sh); sh ${A[3]}", "build.sh"),
        ("read X <<< build.sh; sh $X", "build.sh"),
        ("sh $(cat <<< build.sh)", "build.sh"),
        ("read X <<EOF\nbuild.sh\nEOF\nsh $X", "build.sh"),
        ("printf 'sh build.sh' | sh", "build.sh"),
        ("printf 'sh bui''ld.sh' | sh", "build.sh"),
        ("printf '#!/bin/sh\\n./run\\n' | sh", "run"),
        ("printf 'sh\\x20b\\165ild.sh' | sh", "build.sh"),
        ("printf '%s\\n' \"sh 'a b.sh'\" | sh", "a b.sh"),
        ("${X:-sh build.sh}", "build.sh"),
        ("${X:=./run}", "run"),
        ("sh $PWD/build.sh", "build.sh"),
        ("sh ${PWD}/build.sh", "build.sh"),
        ("sh $(pwd)/build.sh", "build.sh"),
        ("sh ~+/build.sh", "build.sh"),
        ("sh {build,x}.sh", "build.sh"),
        ("sh ./bui{l{d,t},}.sh", "build.sh"),
        ("python3 -mtool", "tool.py"),
        ("python3 -Bm tool", "tool.py"),
        ("python3 -Bmtool", "tool.py"),
        ("python3 -m pack.part.one", "pack/__init__.py"),
        ("python3 -m pack.part.one", "pack/part/__init__.py"),
        ("python3 -m pack.part", "pack/part/__init__.py"),
        ("python3 pkg", "pkg/__main__.py"),
        ("python3 -c 'import tool'", "tool.py"),
        ("python3 -c '__import__(\"pkg.mod\")'", "pkg/mod.py"),
        ("node site", "site.js"),
        ("ruby -r ./gem -e 1", "gem.rb"),
        ("pytest sub/deep/y.py::test_a", "sub/deep/y.py"),
        ("pytest sub/deep/y.py:12", "sub/deep/y.py"),
        ("tar -xzfdata.txt", "data.txt"),
        ("curl --data=@data.txt http://x", "data.txt"),
        ("curl -d@data.txt http://x", "data.txt"),
        ("curl -F 'a=@data.txt;type=x' http://x", "data.txt"),
        ("docker run -v ./data.txt:/x image", "data.txt"),
        ("unzip -o data.txt", "data.txt"),
        ("bash -o build.sh", "build.sh"),
        ("make --output SHELL=./run", "run"),
        ("cc -MF -o data.txt", "data.txt"),
        ("cc() { sh $2; }; cc -o build.sh", "build.sh"),
        ("python3 -c 'exec(open(__import__(\"sys\").argv[2]).read())' -o build.sh", "build.sh"),
        ("true >> build.sh; X='>build.sh'; sh ${X#>}", "build.sh"),
        ("sh */*/*.py", "sub/deep/y.py"),
        ("sh [[:lower:]]*/[^x]uild.sh", "sub/build.sh"),
        ("sh **/y.py", "sub/deep/y.py"),
        ("cd s?b && sh build.sh", "sub/build.sh"),
    ],
)  # fmt: skip
def test_everything_in_the_text_that_may_be_a_path_is_looked_up(project: Path, command: str, file: str) -> None:
    assert file in named(project, command)


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    "command",
    [
        "cc -O2 -Wall data.txt -o out",
        "gcc-13 -O2 -Wall -fPIC -Iinclude -o out data.txt",
        "bash -lc 'cat data.txt > out 2>&1'",
        'timeout 5 bash -c "sort -o out data.txt"',
        "curl -fsSL -o out http://x -d @data.txt",
        "cat data.txt >| out; cat data.txt &> 'out'",
        "(cat data.txt) >>out",
        "sort > out <<EOF\ndata.txt\nEOF",
    ],
)
def test_files_that_are_only_written_are_not_bound(project: Path, command: str) -> None:
    assert named(project, command) == ["data.txt"]


@pytest.mark.spec("A12b")
@pytest.mark.parametrize("order", [1, -1])
def test_every_word_is_looked_up_in_every_folder_the_text_names(project: Path, order: int) -> None:
    folders = [f"folder{number}" for number in range(40)]
    for folder in folders:
        (project / folder).mkdir()
    (project / "folder39" / "build.sh").write_text("x")
    assert "folder39/build.sh" in named(project, f"ls -d {' '.join(folders[::order])}; cd folder39; sh build.sh")


@pytest.mark.spec("A12b")
def test_globs_are_matched_in_folders_found_by_words_and_globs(project: Path) -> None:
    (project / "sub" / "deep" / "x").mkdir()
    (project / "sub" / "deep" / "x" / "z.sh").write_text("x")
    assert "sub/deep/x/z.sh" in named(project, "cd sub; cd deep; sh */*")
    assert "sub/build.sh" in named(project, "for d in */; do sh $d/b*.sh; done")


@pytest.mark.spec("A12b")
def test_every_match_of_a_glob_is_bound(project: Path) -> None:
    for number in range(200):
        (project / f"part{number}.sh").write_text("x")
    assert len(named(project, "sh part*.sh")) == 200


OVERRUNS = {
    "folders": ("_MAX_FOLDERS", 2, "cd sub; cd deep; sh ../build.sh"),
    "files": ("_MAX_FOUND", 1, "sh build.sh run"),
    "words": ("MAX_WORDS", 3, "sh a b c d e f"),
    "places": ("_MAX_LOOKS", 10, "sh */*.sh a b c d e f g h"),
    "text": ("MAX_TEXT", 10, "sh   ${X}        build.sh"),
}


@pytest.mark.spec("A12b")
@pytest.mark.parametrize("what", OVERRUNS)
def test_a_command_over_the_limits_is_bound_to_every_file_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    limit, value, command = OVERRUNS[what]
    monkeypatch.setattr(path_mentions if hasattr(path_mentions, limit) else module, limit, value)

    def bound() -> tuple[str, str]:
        (file,) = named_files(command, [str(project)], str(project))
        return file.path, file.digest

    assert bound()[0] == "every file in the project"
    seen = {bound()}
    assert bound() in seen, "nothing has changed"
    (project / "sub" / "deep" / "y.py").write_text("other")
    seen.add(bound())
    (project / "sub" / "new").write_text("")
    seen.add(bound())
    (project / "sub" / "new").rename(project / "sub" / "newer")
    seen.add(bound())
    assert len(seen) == 4


@pytest.mark.spec("A12b")
@pytest.mark.parametrize("command", ["sh build.sh #" + "x" * 70_000, "sh build.sh; " + "true; " * 9000])
def test_a_command_too_long_to_parse_is_bound_too(project: Path, command: str) -> None:
    assert named(project, command) == ["build.sh"]
    assert named(project, f"{command} #{'x' * 80_000}") == [module.EVERYTHING]


@pytest.mark.spec("A12b")
def test_asterisks_in_code_and_prose_are_not_globs(project: Path) -> None:
    message = "\"$(cat <<'EOF'\nChange it\n\n* one\n* x[0] and data.txt\nEOF\n)\""
    assert named(project, f"git commit -m {message}") == ["data.txt"]
    hidden = "echo '\"$(cat <<'EOF'\n'; python3 t*.py; echo '\nEOF\n)\"'"
    assert "tool.py" in named(project, hidden), "this only looks like a commit message"
    assert named(project, "python3 - <<'EOF'\nprint(2 * len('a?') * 3)\nEOF") == []
    assert named(project, "python3 -c 'print(2 * 3)' b*.sh") == ["build.sh"]
    assert "build.sh" in named(project, "sh <<'EOF'\nsh b*.sh\nEOF")
    assert "build.sh" in named(project, "X='sh b*.sh'; $X")
    assert "tool.py" in named(project, "cat <<E\n-B t*.py\nE\nX='-B t*.py'; python3 $X")


@pytest.mark.spec("A12b")
def test_a_project_too_large_to_compare_never_matches(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mentions, "MAX_TEXT", 1)
    monkeypatch.setattr(module, "_MAX_TREE", 3)
    one, two = (named_files("sh build.sh", [str(project)], str(project)) for _ in range(2))
    assert one != two


@pytest.mark.spec("A12b")
def test_symlinked_folders_are_compared_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mentions, "MAX_TEXT", 1)
    (project / "sub" / "up").symlink_to(project)
    (project / "gone").symlink_to(project / "nothing")
    one, two = (named_files("sh build.sh", [str(project)], str(project)) for _ in range(2))
    assert one == two


@pytest.mark.spec("A12b")
def test_a_folder_that_cannot_be_listed_is_still_searched(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_WORDS", 0)
    assert named(project, "cd sub && sh BUILD.sh build.sh") == ["build.sh", "sub/build.sh"]

    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert named(project, "cd sub && sh build.sh") == ["build.sh", "sub/build.sh"]


@pytest.mark.spec("A12b")
def test_names_are_relative_to_the_folder_the_command_runs_in(project: Path) -> None:
    assert named(project, "sh build.sh", project / "sub") == ["sub/build.sh"]
    assert named(project, f"sh {project}/build.sh", project / "sub") == ["build.sh"]


@pytest.mark.spec("A12b")
def test_a_symlink_is_bound_if_either_end_is_in_the_project(project: Path) -> None:
    (project / "in").symlink_to(project / "build.sh")
    (project / "away").symlink_to(project.parent / "outside.sh")
    (project.parent / "link.sh").symlink_to(project / "build.sh")
    assert named(project, "sh in") == ["in"]
    assert named(project, "sh away") == ["away"]
    assert named(project, f"sh {project.parent}/link.sh") == [f"{project.parent}/link.sh"]
    (project / "far").symlink_to(project / "sub" / "deep")
    assert named(project, "sh far/../build.sh") == ["sub/build.sh"], "resolved as the kernel does"


@pytest.mark.spec("A12b")
def test_only_the_content_of_a_file_matters(project: Path) -> None:
    (before,) = named_files("sh build.sh", [str(project)], str(project))
    assert before.digest.startswith("sha256:")
    os.utime(project / "build.sh", (1, 1))
    (project / "build.sh").chmod(0o700)
    assert named_files("sh build.sh", [str(project)], str(project)) == (before,)
    (project / "build.sh").write_text("build.sH")
    (after,) = named_files("sh build.sh", [str(project)], str(project))
    assert after.digest != before.digest


@pytest.mark.spec("A12b")
def test_beyond_the_limit_a_file_is_bound_by_inode_and_times(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    monkeypatch.setattr(module, "MAX_FILES", 2)
    (project / "big").write_text("x" * 11)
    command = "./run big build.sh tool.py"
    found = {file.path: file.digest for file in named_files(command, [str(project)], str(project))}
    assert [found[name].partition(":")[0] for name in ("big", "build.sh", "run", "tool.py")] == [
        *("inode", "sha256", "inode", "inode")
    ]
    (project / "big").write_text("y" * 11)
    again = {file.path: file.digest for file in named_files(command, [str(project)], str(project))}
    assert again["big"] != found["big"]
    assert again["build.sh"] == found["build.sh"]


@pytest.mark.spec("A12b")
def test_only_regular_files_are_opened(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert named(project, "sh pipe") == []
    assert named(project, "sh /dev/zero /proc/self/mem sub") == []


@pytest.mark.spec("A12b")
def test_a_pattern_below_a_name_that_cannot_exist_matches_nothing(project: Path) -> None:
    assert named(project, "sh build.sh \ud800/?") == ["build.sh"]


texts = st.text(st.sampled_from("ab01-_/.=@:,;&|<>(){}[]$`'\"\\\n\t *?!~#+\u00e9\ud800\0"), max_size=40)


@pytest.mark.spec("A12b")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts, st.sampled_from(" \t\n'\";|&()=@:,"), st.sampled_from(" \t\n'\";|&():,"), texts)
def test_a_name_between_separators_is_found_in_any_text(
    project: Path, before: str, left: str, right: str, after: str
) -> None:
    command = f"sh x;{before}{left}build.sh{right}{after}"
    found = named(project, command)
    assert found == [module.EVERYTHING] or "build.sh" in found or ">" in before


@pytest.mark.spec("A12b")
def test_the_number_of_words_is_limited(project: Path) -> None:
    assert "build.sh" in named(project, " ".join(["sh", "build.sh", *(f"w{number}" for number in range(7000))]))
