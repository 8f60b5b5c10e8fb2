"""`code.search`: matches, their order and rendering, with ripgrep and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import ToolsConfig
from holdfast.text.preview import preview
from holdfast.tools.search import engines
from holdfast.tools.search.engines import find_ripgrep
from holdfast.tools.search.scope import SMALL_EXTENSIONS
from holdfast.tools.search.search import CODE_SEARCH
from tests.runtime.support import run, runtime_in
from tests.tools.search.project_trees import write_tree

ENGINES = ["plain", *(["ripgrep"] if find_ripgrep(Path("/nowhere")) else [])]


@pytest.fixture(params=ENGINES, autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    return request.param


def _nowhere(root: Path) -> None:
    return None


def _search(folder: Path, query: str, config: Config | None = None, **args: Any) -> Result:
    runtime = runtime_in(folder, CODE_SEARCH, config=config)
    return run(runtime.call("code.search", {"query": query, **args}))


def _project(folder: Path, files: dict[str, str | bytes]) -> Path:
    return write_tree(folder / "project", files)


@pytest.mark.spec("B2", "T11")
def test_source_comes_before_configuration_before_the_rest_grouped_by_file(tmp_path: Path) -> None:
    _project(
        tmp_path,
        {
            "a.md": "needle in docs\n",
            "b.toml": "x = 1\nneedle = 2\n",
            "z.py": "import needle\n\n\nneedle()\nneedle\nneedle\n",
            "m/y.rs": "use needle;\n",
        },
    )
    result = _search(tmp_path, "needle")
    assert result.output == (
        "[showing first 6 of 7 matches — read a specific matched file with read_file]\n"
        "m/y.rs (1 match)\n  1: use needle;\n"
        "z.py (4 matches, showing 3)\n  1: import needle\n  4: needle()\n  5: needle\n"
        "b.toml (1 match)\n  2: needle = 2\n"
        "a.md (1 match)\n  1: needle in docs"
    )
    structured = cast("dict[str, Any]", result.structured)
    assert (structured["total_matches"], structured["total_files"]) == (7, 4)
    assert structured["files"][0] == {
        "path": "m/y.rs",
        "matches": 1,
        "exact_definition": False,
        "lines": [{"line": 1, "text": "use needle;"}],
    }


@pytest.mark.spec("B2")
def test_50_lines_are_collected_15_shown_and_all_counted(tmp_path: Path) -> None:
    _project(tmp_path, {f"f{number:02}.py": "needle\n" * 5 for number in range(40)})
    result = _search(tmp_path, "needle")
    structured = cast("dict[str, Any]", result.structured)
    assert result.output.startswith("[showing first 15 of 200 matches — read a specific matched file with read_file]\n")
    assert result.output.count("\n  ") == 15
    assert sum(len(file["lines"]) for file in structured["files"]) == 50
    assert (structured["total_matches"], structured["total_files"]) == (200, 40)
    assert _search(tmp_path, "needle", limit=2).output.count("\n  ") == 2
    assert _search(tmp_path, "needle", limit=60).output.count("\n  ") == 60


@pytest.mark.spec("B2")
def test_the_only_defining_file_is_named_and_comes_first(tmp_path: Path) -> None:
    _project(
        tmp_path,
        {
            "a.py": "needle()\n" * 9,
            "m.py": "needle()\n" * 5 + "    def needle(x):\n",
            "n.py": "def needles():\n",
            "notes.md": "class needle\n",
        },
    )
    result = _search(tmp_path, "needle")
    lines = result.output.split("\n")
    assert lines[1] == "[definition found in m.py — read this file first]"
    assert lines[2] == "m.py [EXACT DEFINITION] (6 matches, showing 3)"
    assert "  6:     def needle(x):" in lines[:6]
    assert lines[6] == "n.py (1 match)"
    assert "notes.md [EXACT DEFINITION] (1 match)" in lines
    write_tree(tmp_path / "project", {"o.rs": "pub struct needle;\n"})
    assert "[definition found" not in _search(tmp_path, "needle").output


@pytest.mark.spec("B2")
def test_without_an_exact_definition_the_only_file_of_definitions_is_named(tmp_path: Path) -> None:
    _project(tmp_path, {"a.py": "x = eedl\n", "b.go": "func needle() {\ntype needles int\n", "c.md": "fn eedl\n"})
    assert "[definition found in b.go — read this file first]" in _search(tmp_path, "eedl").output


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        *((f"{word} needle(", True) for word in ("pub enum", "pub static", "struct", "impl", "interface", "function")),
        ("\tdef needle", True),
        ("async def needle", False),
        ("def needles", False),
        ("define needle", False),
        ("pub(crate) fn needle", False),
    ],
)
@pytest.mark.spec("B2")
def test_a_definition_is_a_keyword_followed_by_exactly_the_name(tmp_path: Path, line: str, exact: bool) -> None:
    _project(tmp_path, {"a.rs": f"{line}\n"})
    assert ("[EXACT DEFINITION]" in _search(tmp_path, "needle").output) == exact


@pytest.mark.spec("B2")
def test_no_match_and_an_empty_query_are_different(tmp_path: Path) -> None:
    _project(tmp_path, {"a.py": "x\n"})
    found = _search(tmp_path, "needle")
    assert (found.success, found.output) == (True, "No matches found.")
    for nothing in ("", "   ", " \t "):
        empty = _search(tmp_path, nothing)
        assert (empty.state, empty.exit_code) == (State.INVALID, 2)
        assert (empty.error or "").endswith("but must not be blank")
    assert "one line" in (_search(tmp_path, "a\nb").error or "")


@pytest.mark.spec("B2")
def test_ignored_hidden_binary_and_linked_files_are_skipped(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"secret.py": "needle\n"})
    root = _project(
        tmp_path,
        {
            ".gitignore": "*.log\nout/\n!keep.log\n",
            "a.log": "needle\n",
            "keep.log": "needle\n",
            "out/a.py": "needle\n",
            ".hidden.py": "needle\n",
            ".dir/a.py": "needle\n",
            ".git/hooks/a.py": "needle\n",
            "nul.py": b"needle\n" + b"x" * 100_000 + b"\0",
            "utf16.py": "needle\n".encode("utf-16"),
            "ok.py": "needle\n",
        },
    )
    (root / "link.py").symlink_to(root / "ok.py")
    (root / "gone.py").symlink_to(outside / "secret.py")
    (root / "folder").symlink_to(outside)
    assert _search(tmp_path, "needle").output == "ok.py (1 match)\n  1: needle\nkeep.log (1 match)\n  1: needle"


@pytest.mark.spec("B2")
def test_invalid_utf8_is_searched_and_shown_with_replacements(tmp_path: Path) -> None:
    _project(
        tmp_path,
        {
            "bom.py": b"\xef\xbb\xbfdef needle():\r\n",
            "crlf.py": b"one\r\nneedle\r\n",
            "latin.py": b"\xe9 needle \xff",
            "long.py": b"\n" + b"needle " * 500_000,
            "new\nline: 3.py": "needle",
        },
    )
    lines = _search(tmp_path, "needle").output.split("\n")
    assert "  1: def needle():" in lines
    assert "  2: needle" in lines
    assert "  1: \ufffd needle \ufffd" in lines
    (long,) = (line for line in lines if line.startswith("  2: needle needle"))
    assert len(long.removeprefix("  2: ").encode()) == 500 and long.endswith("... [truncated]")
    assert "line: 3.py (1 match)" in lines
    assert "[definition found in bom.py — read this file first]" in lines


@pytest.mark.spec("B2")
def test_file_names_that_are_not_utf8_are_found_too(tmp_path: Path) -> None:
    root = _project(tmp_path, {"a.py": "needle\n"})
    with open(bytes(root) + b"/\xff.py", "wb") as file:  # noqa: PTH123 - a name that is not text
        file.write(b"needle\n")
    assert _search(tmp_path, "needle").output == "a.py (1 match)\n  1: needle\n\ufffd.py (1 match)\n  1: needle"


@pytest.mark.spec("B2")
def test_ignore_rules_above_a_searched_folder_still_apply(tmp_path: Path) -> None:
    _project(
        tmp_path,
        {
            ".gitignore": "*.log\nsub/skip/\nother/\n",
            "a.py": "needle\n",
            "sub/b.py": "needle\n",
            "sub/b.log": "needle\n",
            "sub/skip/c.py": "needle\n",
            "sub/.gitignore": "d.py\n",
            "sub/d.py": "needle\n",
            "other/e.py": "needle\n",
        },
    )
    assert _search(tmp_path, "needle", path="sub").output == "sub/b.py (1 match)\n  1: needle"
    assert _search(tmp_path, "needle", path="other").output == "other/e.py (1 match)\n  1: needle"
    write_tree(tmp_path / "project", {".ignore": "!d.py\n"})
    assert "sub/d.py" in _search(tmp_path, "needle", path="sub").output
    assert (
        "sub/d.py" in _search(tmp_path, "need(?=le)", path="sub", regex=True).output
    )  # only the plain scan can do this search


@pytest.mark.spec("B2")
def test_a_single_file_is_searched_even_if_ignored(tmp_path: Path) -> None:
    _project(tmp_path, {".gitignore": "*\n", "sub/a.txt": "x\n" + "needle\n" * 20})
    result = _search(tmp_path, "needle", path="sub/a.txt")
    assert result.output.startswith("[showing first 15 of 20 matches")
    assert "sub/a.txt (20 matches, showing 15)" in result.output
    assert _search(tmp_path, "ne+dle", path="sub/a.txt", regex=True).output == result.output


@pytest.mark.spec("B2")
def test_glob_case_and_regex_change_the_matches(tmp_path: Path) -> None:
    _project(tmp_path, {"a.py": "Needle\nneedless\n", "lib/b.rs": "needle\n", "lib/c.py": "nadle\n"})
    assert "b.rs" not in _search(tmp_path, "needle", glob="*.py").output
    assert "a.py" not in _search(tmp_path, "needle", glob="lib/**").output
    assert "b.rs" not in _search(tmp_path, "needle", glob="!*.rs").output
    assert "a.py (2 matches)" in _search(tmp_path, "NEEDLE", case="insensitive").output
    found = _search(tmp_path, r"\bn(ee|a)dle$", regex=True).output
    assert found == "lib/b.rs (1 match)\n  1: needle\nlib/c.py (1 match)\n  1: nadle"
    assert _search(tmp_path, "n(ee|a)dle").output == "No matches found."
    assert "is invalid" in (_search(tmp_path, "x", glob="{a").error or "")


@pytest.mark.parametrize("query", ["(", "ab(c(d)", "ab[c", "ab)", "a|*", "x[bz-a]", "ab\\", r"ab\p", "a{3,2}"])
@pytest.mark.spec("B2")
def test_an_invalid_pattern_is_refused_with_the_reason(tmp_path: Path, query: str) -> None:
    _project(tmp_path, {"a.py": "x\n"})
    error = _search(tmp_path, query, regex=True).error or ""
    assert error.startswith("The pattern is invalid: ") and ". Correct it" in error
    assert not error.startswith("The pattern is invalid: .")


@pytest.mark.spec("B2")
def test_look_around_works_in_python_and_is_refused_by_ripgrep(tmp_path: Path, engine: str) -> None:
    _project(tmp_path, {"a.py": "needle 1\nneedle\n"})
    result = _search(tmp_path, r"needle(?!\s)", regex=True)
    if engine == "plain":
        assert result.output == "a.py (1 match)\n  2: needle"
    else:
        assert "look-around" in (result.error or "")


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        (r"^def \w+\(", [1]),
        (r"größe\b|[äé]", [2, 3]),
        (r"^.{3}$", [3]),
        (r"\s$", [4]),
        (r"^$", [5]),
        (r"[^a-z]x", [3, 6]),
        ("(?i)NEED", [2, 6]),
        (r"x*", [1, 2, 3, 4, 5, 6]),
    ],
)
@pytest.mark.spec("B2")
def test_a_pattern_matches_characters_within_one_line(tmp_path: Path, query: str, lines: list[int]) -> None:
    _project(tmp_path, {"a.py": "def größer(\nneed größe\nxäx\nend \n\nneed-x\n"})
    structured = cast("dict[str, Any]", _search(tmp_path, query, regex=True, path="a.py").structured)
    assert [line["line"] for file in structured["files"] for line in file["lines"]] == lines


@pytest.mark.spec("B2")
def test_a_single_file_of_any_name_is_searched_unless_binary(tmp_path: Path) -> None:
    names = ["[a].py", "{b}.py", "a*b.py", "!c.py", ".h.py", "new\nline.py", "sub/d e.py", "sub/[x]/é.py"]
    _project(tmp_path, dict.fromkeys(names, "needle\n") | {"nul.py": b"needle\n\0"})
    for name in names:
        assert _search(tmp_path, "needle", path=name).output == f"{name} (1 match)\n  1: needle"
    assert _search(tmp_path, "needle", path="nul.py").output == "No matches found."


@pytest.mark.spec("B2")
def test_small_models_see_known_extensions_and_no_build_folders(tmp_path: Path) -> None:
    # The 29 of the first version, and four formats of configuration files, which questions about settings need.
    assert len(SMALL_EXTENSIONS) == 29 + 4
    assert {"ini", "cfg", "conf", "properties"} <= SMALL_EXTENSIONS
    _project(
        tmp_path,
        {
            ".gitignore": "ignored.py\n",
            "ignored.py": "needle\n",
            "a.weird": "needle\n",
            "Makefile": "needle\n",
            "node_modules/a.py": "needle\n",
            "deep/target/a.py": "needle\n",
            ".hidden/a.py": "needle\n",
            "build.py": "needle\n",
        },
    )
    small = Config(tools=ToolsConfig(caps="small"))
    found = _search(tmp_path, "needle", config=small).output
    assert found == "build.py (1 match)\n  1: needle\nignored.py (1 match)\n  1: needle"


@pytest.mark.parametrize("path", ["../x", "/etc", "missing", "x" * 300, "pipe", "link"])
@pytest.mark.spec("B2", "N5")
def test_search_paths_outside_the_project_are_refused(tmp_path: Path, path: str) -> None:
    import os

    root = _project(tmp_path, {"a.py": "needle\n"})
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(tmp_path)
    result = _search(tmp_path, "needle", path=path)
    assert not result.success and result.error


@pytest.mark.spec("O1")
def test_the_preview_shows_the_query_and_the_path() -> None:
    def shown(**args: Any) -> str:
        return preview("search_code", args, format_preview=CODE_SEARCH.format_preview)

    assert shown(query="needle") == "search_code: 'needle'"
    everything = shown(query="a+", regex=True, path="src", glob="*.py", label="why")
    assert everything == "search_code: /a+/  in src  *.py  # why"
    assert CODE_SEARCH.touches is not None
    assert CODE_SEARCH.touches({"query": "x", "path": "src"}) == ["src"]
    assert CODE_SEARCH.touches({"query": "x"}) == ["."]


@pytest.mark.spec("B2")
def test_the_conversation_itself_is_not_searched(tmp_path: Path) -> None:
    root = _project(tmp_path, {"fix.chat": "needle", "other.chat": "needle", "src/a.py": "needle"})
    runtime = runtime_in(tmp_path, CODE_SEARCH, document=root / "fix.chat")

    def found(**args: Any) -> list[str]:
        result = run(runtime.call("code.search", {"query": "needle", **args}))
        files = cast("dict[str, Any]", result.structured)["files"]
        return sorted(file["path"] for file in files)

    assert found() == ["other.chat", "src/a.py"]
    assert found(glob="*.chat") == ["other.chat"]
    assert found(path="fix.chat") == ["fix.chat"], "unless it is named"


@pytest.mark.parametrize("folder", ["", "talks/"])
@pytest.mark.spec("B2")
def test_the_attachments_and_conflict_copies_of_the_conversation_are_not_searched(tmp_path: Path, folder: str) -> None:
    own = [f"{folder}fix.chat", f"{folder}fix.chat.files/0-a.txt", f"{folder}fix.conflict-2.chat"]
    others = ["fix.chat.bak", "other.chat.files/0-a.txt", "other/fix.chat", "other/fix.conflict-2.chat"]
    root = _project(tmp_path, dict.fromkeys((*own, *others), "needle\n"))
    (tmp_path / "link").symlink_to(root / own[0])
    (root / "here").symlink_to(own[0])

    for document in (root / own[0], tmp_path / "link", root / "here"):
        runtime = runtime_in(tmp_path, CODE_SEARCH, document=document)

        def found(runtime: Runtime = runtime, **args: Any) -> list[str]:
            result = run(runtime.call("code.search", {"query": "needle", **args}))
            files = cast("dict[str, Any]", result.structured)["files"]
            assert cast("dict[str, Any]", result.structured)["total_files"] == len(files)
            return sorted(file["path"] for file in files)

        assert found() == others
        assert found(regex=True, query="need.e") == others
        for path in own:
            assert found(path=path) == [path], "unless it is named"
        assert found(path=f"{own[0]}.files") == [own[1]]


@pytest.mark.spec("B2")
def test_a_document_outside_the_project_hides_nothing(tmp_path: Path) -> None:
    _project(tmp_path, {"fix.chat": "needle"})
    runtime = runtime_in(tmp_path, CODE_SEARCH, document=tmp_path / "fix.chat")
    assert "fix.chat (1 match)" in run(runtime.call("code.search", {"query": "needle"})).output
