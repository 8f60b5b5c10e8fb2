"""Which files of a project a command names, and what they are bound by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.rules import named_files as module
from holdfast.rules.named_files import named_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("build.sh", "tool.py", "run", "x.mk", "sub/build.sh", "sub/deep/y.py", "pkg/mod.py", "pkg/__main__.py",
                 "a b.sh", "data.txt", "out"):  # fmt: skip
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
        ("touch $(cat data.txt)", ["data.txt"]),
        ("cp data.txt run", ["data.txt", "run"]),
        ("sh ./b*.sh", ["build.sh"]),
        ("cd sub && sh bu?ld.sh", ["build.sh", "sub/build.sh"]),
        ("sh *.nothing $X ~/x", []),
        ("sh <<< '. ./run'", ["run"]),
        ("sh <<EOF\n. ./run\nEOF", ["run"]),
        ("eval \"$(< build.sh)\"", ["build.sh"]),
        ("sh ../outside.sh", []),
        ("sh missing.sh", []),
        ("echo build sh", []),
        ("ls sub", []),
        ("sh build.sh 'unclosed", ["build.sh"]),
    ],
)
def test_the_plain_words_of_every_simple_command_are_looked_at(project: Path, command: str, files: list[str]) -> None:
    assert named(project, command) == files


@pytest.mark.spec("A12b")
def test_names_are_taken_from_the_folder_the_command_runs_in(project: Path) -> None:
    assert named(project, "sh build.sh", project / "sub") == ["sub/build.sh"]
    assert named(project, f"sh {project}/build.sh", project / "sub") == ["build.sh"]


@pytest.mark.spec("A12b")
def test_links_are_followed_and_belong_to_the_project_by_either_end(project: Path) -> None:
    (project / "in").symlink_to(project / "build.sh")
    (project / "away").symlink_to(project.parent / "outside.sh")
    (project.parent / "link.sh").symlink_to(project / "build.sh")
    assert named(project, "sh in") == ["in"]
    assert named(project, "sh away") == ["away"]
    assert named(project, f"sh {project.parent}/link.sh") == [f"{project.parent}/link.sh"]
    (project / "far").symlink_to(project / "sub" / "deep")
    assert named(project, "sh far/../build.sh") == ["sub/build.sh"], "as the kernel reads it"


@pytest.mark.spec("A12b")
def test_content_counts_and_nothing_else(project: Path) -> None:
    (before,) = named_files("sh build.sh", [str(project)], str(project))
    assert before.digest.startswith("sha256:")
    os.utime(project / "build.sh", (1, 1))
    (project / "build.sh").chmod(0o700)
    assert named_files("sh build.sh", [str(project)], str(project)) == (before,)
    (project / "build.sh").write_text("build.sH")
    (after,) = named_files("sh build.sh", [str(project)], str(project))
    assert after.digest != before.digest


@pytest.mark.spec("A12b")
def test_beyond_the_bound_a_file_is_known_by_its_inode_and_times(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_is_no_file_is_not_opened(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert named(project, "sh pipe") == []
    assert named(project, "sh /dev/zero /proc/self/mem sub") == []


@pytest.mark.spec("A12b")
def test_very_many_words_are_bounded(project: Path) -> None:
    assert "build.sh" in named(project, " ".join(["sh", "build.sh", *(f"w{number}" for number in range(7000))]))
