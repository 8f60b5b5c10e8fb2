"""Files a search found: which is read next, why one that was read does not count, and what an answer cites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.result import Result, fail, ok
from holdfast.guardrails.evidence import (
    Candidate,
    LineRole,
    Rejection,
    best_candidate,
    candidates_of,
    line_role,
    refers_to,
    rejection_of,
    same_path,
)
from holdfast.guardrails.intent import Mode
from holdfast.models.requests.words import is_config_file, is_lockfile, paths_in
from holdfast.tools.search.search import CODE_SEARCH
from tests.runtime.support import run, runtime_in
from tests.text.strategies import ANY_TEXT
from tests.tools.search.project_trees import write_tree


def found(path: str, *lines: str, matches: int | None = None, exact: bool = False) -> Candidate:
    count = len(lines) if matches is None else matches
    return Candidate(path=path, matches=count, lines=lines, exact_definition=exact)


DEFINES = found("src/a.py", "def parse_line(text):", exact=True)
USES = found("src/b.py", "x = parse_line(y)")
USES_MORE = found("src/c.py", "parse_line(1)", "parse_line(2)")
IMPORTS = found("src/d.py", "from a import parse_line")
TESTS = found("tests/test_a.py", "parse_line(1)", "parse_line(2)", "parse_line(3)")
SETTINGS = found("app.toml", "parse_line = true")
LOCK = found("uv.lock", "name = 'parse_line'")
DOCS = found("README.md", "`parse_line` reads", "import parse_line")


@pytest.mark.spec("M4")
def test_candidates_are_the_files_of_a_real_search_in_its_order(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.md": "parse_line\n",
        "b.py": "x = parse_line(1)\ny = parse_line(2)\n",
        "z.py": "def parse_line(text):\n    pass\n",
    }
    write_tree(tmp_path / "project", files)
    result = run(runtime_in(tmp_path, CODE_SEARCH).call("code.search", {"query": "parse_line"}))
    assert candidates_of(result) == (
        found("z.py", "def parse_line(text):", exact=True),
        found("b.py", "x = parse_line(1)", "y = parse_line(2)"),
        found("a.md", "parse_line"),
    )


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "result",
    [
        ok("text"),
        ok("", structured=[1]),
        ok("", structured={"files": []}),
        ok("", structured={"query": "x", "files": "a.py"}),
        ok("", structured={"query": "x", "files": ["a.py", 3, None, {}, {"path": ""}, {"path": "a", "matches": "1"}]}),
        ok("", structured={"files": ["a.py"], "truncated": False}),
        fail("no", structured={"query": "x", "files": [{"path": "a.py", "matches": 1, "lines": []}]}),
    ],
)
def test_any_other_result_has_no_candidates(result: Result) -> None:
    assert candidates_of(result) == ()


@pytest.mark.spec("M4")
def test_a_file_that_is_named_twice_is_one_candidate() -> None:
    files: Any = [{"path": path, "matches": 1, "lines": [{"text": path}, "?"]} for path in ("./a.py", "b.py", "a.py")]
    result = ok("", structured={"query": "x", "files": files})
    assert candidates_of(result) == (found("./a.py", "./a.py"), found("b.py", "b.py"))


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["query", "files", "path", "matches", "lines", "text"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.spec("M4")
@given(value=JSON)
def test_whatever_a_result_holds_is_looked_through(value: Any) -> None:
    for candidate in candidates_of(ok("", structured=value)):
        assert candidate.path in str(value) or candidate.path in repr(value)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("def parse_line(text):", LineRole.DEFINE),
        ("    async def parse_line(text):", LineRole.DEFINE),
        ("export default class Parser {", LineRole.DEFINE),
        ("pub(crate) fn parse_line() {", LineRole.DEFINE),
        ("pub async fn parse_line() {", LineRole.DEFINE),
        ("export const parse = 1", LineRole.USE),
        ("const parsed = parse_line(x)", LineRole.USE),
        ("defaults = parse_line", LineRole.USE),
        ("return parse_line(x)", LineRole.USE),
        ("importlib.parse_line()", LineRole.USE),
        ("import parse_line", LineRole.IMPORT),
        ("from .a import (parse_line)", LineRole.IMPORT),
        ("import { parseLine } from './a'", LineRole.IMPORT),
        ("export { parseLine } from './a'", LineRole.IMPORT),
        ("const { parseLine } = require('./a');", LineRole.IMPORT),
        ("use crate::text::parse_line;", LineRole.IMPORT),
        ("pub use text::parse_line;", LineRole.IMPORT),
        ("#include <parse_line.h>", LineRole.IMPORT),
        ("using Parse.Line;", LineRole.IMPORT),
        ("require 'parse_line'", LineRole.IMPORT),
        ("@import 'parse_line';", LineRole.IMPORT),
        ("const a = await import('./parse_line')", LineRole.USE),
        ("import('./parse_line')", LineRole.USE),
        ("using (var x = parse_line())", LineRole.USE),
        ("user = parse_line", LineRole.USE),
        ("from_text = parse_line", LineRole.USE),
    ],
)
def test_a_line_defines_imports_or_uses(line: str, does: LineRole) -> None:
    assert line_role(line, exact=False) is does


@pytest.mark.spec("M4")
def test_a_constant_that_is_what_was_searched_for_is_defined_by_its_line() -> None:
    assert line_role("const LIMIT = 3;", exact=True) is LineRole.DEFINE
    assert line_role("const LIMIT = 3;", exact=False) is LineRole.USE


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("mode", "read", "content", "others", "gate"),
    [
        (Mode.USAGE, DEFINES, "", [USES], Rejection.DEFINITION_ONLY),
        (Mode.USAGE, DEFINES, "", [], None),
        (Mode.USAGE, DEFINES, "", [DOCS, IMPORTS], None),
        (Mode.USAGE, USES, "", [DEFINES], None),
        (Mode.USAGE, found("src/a.py", "def parse_line(text):", matches=4, exact=True), "", [USES], None),
        (Mode.USAGE, IMPORTS, "", [USES], Rejection.IMPORT_ONLY),
        (Mode.USAGE, found("src/d.py", "import parse_line", matches=2), "", [USES], None),
        (Mode.DEFINITION, DEFINES, "", [USES], None),
        (Mode.DEFINITION, USES, "", [DEFINES], Rejection.NOT_DEFINITION),
        (Mode.DEFINITION, USES, "", [USES_MORE], None),
        (Mode.DEFINITION, found("x.py", "class ParseLines:"), "", [DEFINES], Rejection.NOT_DEFINITION),
        (Mode.DEFINITION, USES, "", [found("x.py", "class ParseLines:")], Rejection.NOT_DEFINITION),
        (Mode.CONFIG, USES, "", [SETTINGS], Rejection.NOT_CONFIG),
        (Mode.CONFIG, USES, "", [USES_MORE, LOCK], None),
        (Mode.CONFIG, USES, "", [found("config.py", "import parse_line")], None),
        (Mode.CONFIG, SETTINGS, "", [USES], None),
        (Mode.CONFIG, found("src/settings.py", "x = parse_line"), "", [SETTINGS], None),
        (Mode.INIT, USES, "x = parse_line(y)", [USES_MORE], Rejection.LACKS_TERM),
        (Mode.INIT, USES, "def __init__(self): ...", [USES_MORE], None),
        (Mode.INIT, USES, "x = parse_line(y)", [], None),
        (Mode.CREATE, USES, "Created at", [USES_MORE], None),
        (Mode.CREATE, USES, "made at", [USES_MORE], Rejection.LACKS_TERM),
        (Mode.REGISTER, USES, "", [USES_MORE], Rejection.LACKS_TERM),
        (Mode.REGISTER, USES, "REGISTRY", [USES_MORE], None),
        (Mode.LOAD, USES, "reload()", [USES_MORE], None),
        (Mode.SAVE, USES, "persisted", [USES_MORE], None),
        (Mode.SAVE, USES, "load()", [USES_MORE], Rejection.LACKS_TERM),
        (Mode.GENERAL, LOCK, "", [USES], Rejection.LOCKFILE),
        (Mode.GENERAL, LOCK, "", [], None),
        (Mode.CONFIG, LOCK, "", [SETTINGS], Rejection.LOCKFILE),
        (Mode.GENERAL, IMPORTS, "", [USES], Rejection.IMPORT_ONLY),
        (Mode.GENERAL, IMPORTS, "", [DOCS, LOCK], None),
        (Mode.GENERAL, DOCS, "", [USES], None),
        (Mode.GENERAL, DEFINES, "", [USES], None),
    ],
)
def test_reading_a_file_counts_unless_another_would_show_it_better(
    mode: Mode, read: Candidate, content: str, others: list[Candidate], gate: Rejection | None
) -> None:
    assert rejection_of(mode, f"./{read.path}", content, [*others, read]) is gate
    assert rejection_of(mode, read.path, content, [read, *others]) is gate


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("mode", "candidates", "read", "path"),
    [
        (Mode.USAGE, [DEFINES, USES, USES_MORE, IMPORTS], [], "src/c.py"),
        (Mode.USAGE, [DEFINES, USES, USES_MORE, IMPORTS], ["./src/c.py"], "src/b.py"),
        (Mode.USAGE, [DEFINES, IMPORTS, USES], ["src/b.py"], "src/a.py"),
        (Mode.USAGE, [TESTS, USES], [], "src/b.py"),
        (Mode.USAGE, [DOCS, USES], [], "src/b.py"),
        (Mode.USAGE, [USES, found("src/e.py", "parse_line(0)", matches=9)], [], "src/e.py"),
        (Mode.CONFIG, [USES, SETTINGS], [], "app.toml"),
        (Mode.CONFIG, [found("config.py", "x = parse_line"), SETTINGS], [], "app.toml"),
        (Mode.CONFIG, [USES, found("config.py", "x = parse_line")], [], "config.py"),
        (Mode.CONFIG, [USES, LOCK], [], "src/b.py"),
        (Mode.DEFINITION, [USES, found("x.py", "class ParseLines:"), DEFINES], [], "src/a.py"),
        (Mode.DEFINITION, [USES, found("x.py", "class ParseLines:")], [], "x.py"),
        (Mode.DEFINITION, [found("x.js", "const parse = require('x')", exact=True), USES], [], "src/b.py"),
        (Mode.CONFIG, [found("config.py", "import parse_line"), USES], [], "src/b.py"),
        (Mode.LOAD, [USES, found("src/l.py", "load(parse_line)")], [], "src/l.py"),
        (Mode.GENERAL, [USES, DEFINES, USES_MORE], [], "src/b.py"),
        (Mode.GENERAL, [IMPORTS, DEFINES], [], "src/a.py"),
        (Mode.GENERAL, [LOCK, DOCS], [], "README.md"),
        (Mode.GENERAL, [LOCK, DOCS], ["README.md"], None),
        (Mode.GENERAL, [LOCK], [], "uv.lock"),
        (Mode.GENERAL, [], [], None),
        (Mode.GENERAL, [USES], ["src\\b.py"], None),
    ],
)
def test_the_best_candidate_is_read_next(
    mode: Mode, candidates: list[Candidate], read: list[str], path: str | None
) -> None:
    assert best_candidate(mode, candidates, read) == path


LINES = st.sampled_from(
    ["def parse_line():", "import parse_line", "parse_line(1)", "const parse_line = require('x')", "class X:", "load"]
)
NAMES = ("a.py", "b.py", "c.js", "tests/d.py", "settings.py", "conf.py", "x.toml", "README.md", "uv.lock", "y.lock")


def some_file(path: str, lines: list[str], more: int, exact: bool) -> Candidate:
    return found(path, *lines, matches=len(lines) + more, exact=exact)


FOUND = st.builds(some_file, st.sampled_from(NAMES), st.lists(LINES, max_size=3), st.integers(0, 2), st.booleans())
SEARCHED = st.lists(FOUND, min_size=1, max_size=6, unique_by=lambda one: one.path)


@pytest.mark.spec("M4")
@given(mode=st.sampled_from(Mode), candidates=SEARCHED, content=st.sampled_from(["", "init create register load save"]))
def test_a_file_is_only_turned_down_for_one_that_passes_the_same_gate(
    mode: Mode, candidates: list[Candidate], content: str
) -> None:
    for candidate in candidates:
        gate = rejection_of(mode, candidate.path, content, candidates)
        if gate is None:
            continue
        better = best_candidate(mode, candidates, [candidate.path])
        assert better is not None and better != candidate.path
        if gate is not Rejection.LACKS_TERM:
            assert rejection_of(mode, better, content, candidates) is not gate


@pytest.mark.spec("M4")
@given(mode=st.sampled_from(Mode), candidates=SEARCHED)
def test_reading_the_best_ones_in_turn_ends_and_repeats_none(mode: Mode, candidates: list[Candidate]) -> None:
    read: list[str] = []
    while (path := best_candidate(mode, candidates, read)) is not None:
        assert path not in read
        read.append(path)
    locks = [one.path for one in candidates if is_lockfile(one.path)]
    assert len(read) == len(candidates) - (len(locks) if len(locks) < len(candidates) else 0)


PART = st.sampled_from(["a", "b.py", "..", ".c", "é"])
SPELLING = st.tuples(
    st.sampled_from(["", "./", ".\\", "././"]),
    st.lists(PART, min_size=1, max_size=3),
    st.sampled_from(["/", "\\", "//", "/./"]),
)


@pytest.mark.spec("M4")
@given(spelling=SPELLING, other=SPELLING, third=SPELLING)
def test_same_path_is_an_equivalence_and_sees_through_spellings(
    spelling: tuple[str, list[str], str], other: tuple[str, list[str], str], third: tuple[str, list[str], str]
) -> None:
    one, two, three = (lead + between.join(parts) for lead, parts, between in (spelling, other, third))
    assert same_path(one, "/".join(spelling[1]))
    assert same_path(one, one)
    assert same_path(one, two) == same_path(two, one) == (spelling[1] == other[1])
    assert same_path(one, three) or not (same_path(one, two) and same_path(two, three))


@pytest.mark.spec("M4")
def test_paths_with_other_letters_or_an_absolute_one_are_other_files() -> None:
    assert not same_path("a.py", "A.py")
    assert not same_path("/a.py", "a.py")
    assert not same_path("src/a.py", "a.py")


@pytest.mark.spec("M4")
def test_the_end_of_a_path_refers_to_it() -> None:
    assert refers_to("rails.py", "src/guard/rails.py")
    assert refers_to("./guard/rails.py", "src/guard/rails.py")
    assert not refers_to("ails.py", "src/guard/rails.py")
    assert not refers_to("other/rails.py", "src/guard/rails.py")
    assert not refers_to("", "a.py")


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "path",
    [
        "package-lock.json", "web/Cargo.lock", "poetry.lock", "uv.lock", "yarn.lock", "pnpm-lock.yaml", "go.sum",
        "Gemfile.lock", "composer.lock", "a\\Pipfile.lock", "flake.lock",
    ],
)  # fmt: skip
def test_lock_files_are_known_by_name_and_configure_nothing(path: str) -> None:
    assert is_lockfile(path)
    assert not is_config_file(path)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("path", ["lock.py", "src/locking.rs", "package.json", "blocks.yaml", "uv.lock/a.py"])
def test_other_files_are_no_lock_files(path: str) -> None:
    assert not is_lockfile(path)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        ("It is in `src/a.py`.", ["src/a.py"]),
        ("It is in src/a.py, see also (docs/guide.md).", ["src/a.py", "docs/guide.md"]),
        ("**src/a.py**: yes; src/a.py: again", ["src/a.py"]),
        ("`./src/a.py:42` and src/b.rs:3-9 and c.ts#L7", ["./src/a.py", "src/b.rs", "c.ts"]),
        ("tests/test_a.py::test_one fails", ["tests/test_a.py"]),
        ("a.py's main, 'b.py' and “c.py”", ["a.py", "b.py", "c.py"]),
        ("src\\net\\a.py", ["src\\net\\a.py"]),
        ("[a.py](src/a.py) and [b](https://x.org/b.py)", ["a.py", "src/a.py"]),
        (".../net/a.py", ["net/a.py"]),
        (".eslintrc.json and .github/workflows/ci.yml", [".eslintrc.json", ".github/workflows/ci.yml"]),
        ("See https://example.com/src/a.py, http://x/b.py and example.com/c.html", []),
        ("Use Python 3.12, v1.2.3, e.g. 0.1.0, i.e. now", []),
        ("`response.json()`, `foo.bar()`, os.path, self.c, request.json and data.py()", []),
        ("Node.js and Vue.js are not files; neither is process.env", []),
        ("all `*.py` files, src/**/*.ts, <name>.py, test_?.py, {a,b}.js and .py", []),
        ("src/*.spec.ts and {name}.test.js", []),
        ("/usr/lib/os.py and ~/x.py", []),
        ("no paths here: and/or, TCP/IP, 1/2, src/net", []),
        ("```python\nimport x from './a.js'\nopen('b.txt')\n```\nsee c.py", ["c.py"]),
        ("```\nsrc/a.py\n```", ["src/a.py"]),
        ("```\nnever closed: src/a.py", ["src/a.py"]),
        ("````\n```\nin src/a.py\n```\n````\nb.py", ["b.py"]),
        ("", []),
    ],
)
def test_an_answer_cites_the_files_it_names(answer: str, paths: list[str]) -> None:
    assert paths_in(answer) == paths


@pytest.mark.spec("M4")
@given(before=ANY_TEXT, after=ANY_TEXT, path=st.sampled_from(["src/a.py", "b.rs", "docs/c.md"]))
def test_citations_are_parts_of_the_answer_each_once(before: str, after: str, path: str) -> None:
    answer = f"{before}\n\nsee `{path}` or so\n\n{after}"
    paths = paths_in(answer)
    assert path in paths
    assert len(paths) == len(set(paths))
    assert all(one in answer for one in paths)


@pytest.mark.spec("M4")
@given(mode=st.sampled_from(Mode), path=ANY_TEXT, content=ANY_TEXT, line=ANY_TEXT)
def test_no_text_breaks_the_judgement(mode: Mode, path: str, content: str, line: str) -> None:
    candidates = [found(path, line), USES]
    assert rejection_of(mode, path, content, candidates) in (*Rejection, None)
    assert best_candidate(mode, candidates, []) in (path, USES.path)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("unit", ["a.py ", "a.", "`", "://", "```\n", "~~~\n", "../", ":1", "(", "a/b"])
def test_an_answer_of_a_megabyte_is_looked_through(unit: str) -> None:
    answer = unit * (1_000_000 // len(unit))
    assert "z.py" in paths_in(f"{answer}\n\nz.py\n")
    assert line_role(answer, exact=False) in LineRole
