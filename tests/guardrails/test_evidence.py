"""What searches found: the role of a line, the places of a name in words, the file to read, and the line to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.result import Result, fail, ok
from holdfast.guardrails.evidence import (
    Candidate,
    FoundLine,
    LineRole,
    Places,
    Search,
    best_file,
    describe,
    likely_line,
    line_role,
    places_of,
    refers_to,
    same_path,
    search_of,
)
from holdfast.guardrails.intent import EarlierContext, Intent, Kind, Mode, Term, intent_of
from holdfast.models.requests.words import is_config_file, is_lockfile
from holdfast.tools.search.search import CODE_SEARCH
from tests.quick import quickly
from tests.runtime.support import run, runtime_in
from tests.text.strategies import ANY_TEXT
from tests.tools.search.project_trees import write_tree

NAME = "parse_line"


def found(path: str, *lines: str, matches: int | None = None, exact: bool = False) -> Candidate:
    count = len(lines) if matches is None else matches
    numbered = tuple(FoundLine(number, line) for number, line in enumerate(lines, 1))
    return Candidate(path=path, matches=count, lines=numbered, exact_definition=exact)


def searched(*files: Candidate, query: str = NAME, total: int | None = None, **more: Any) -> Search:
    return Search(query=query, files=files, total_files=len(files) if total is None else total, **more)


DEFINES = found("src/a.py", "def parse_line(text):", exact=True)
USES = found("src/b.py", "x = parse_line(y)")
USES_MORE = found("src/c.py", "parse_line(1)", "parse_line(2)")
IMPORTS = found("src/d.py", "from a import parse_line")
TESTS = found("tests/test_a.py", "parse_line(1)", "parse_line(2)", "parse_line(3)")
SETTINGS = found("app.toml", "parse_line = true")
LOCK = found("uv.lock", "name = 'parse_line'")
DOCS = found("README.md", "`parse_line` reads")


@pytest.mark.spec("M4")
def test_a_real_search_is_read_in_its_order(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.md": "parse_line\n",
        "b.py": "x = parse_line(1)\ny = parse_line(2)\n",
        "z.py": "def parse_line(text):\n    pass\n",
    }
    write_tree(tmp_path / "project", files)
    result = run(runtime_in(tmp_path, CODE_SEARCH).call("code.search", {"query": "parse_line"}))
    assert search_of(result) == searched(
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
        ok("", structured={"query": "x", "files": "a.py", "total_files": 1}),
        ok("", structured={"files": ["a.py"], "truncated": False}),
        fail("no", structured={"query": "x", "files": [], "total_files": 0}),
    ],
)
def test_any_other_result_is_no_search(result: Result) -> None:
    assert search_of(result) is None


@pytest.mark.spec("M4")
def test_a_file_that_is_named_twice_is_one_and_what_is_no_file_is_none() -> None:
    line: Any = {"line": 1, "text": "x"}
    files: Any = [{"path": path, "matches": 1, "lines": [line, "?"]} for path in ("./a.py", "b.py", "a.py")]
    files += ["a.py", 3, None, {}, {"path": ""}, {"path": "a", "matches": "1"}]
    result = ok("", structured={"query": NAME, "files": files, "total_files": 2, "unreadable_files": 3})
    assert search_of(result) == searched(found("./a.py", "x"), found("b.py", "x"), skipped=3)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["query", "files", "path", "matches", "lines", "line", "text", "total_files"]), inner
        )
    ),
    max_leaves=12,
)


@pytest.mark.spec("M4")
@given(files=st.lists(JSON, max_size=4), total=st.integers(), mode=st.sampled_from(Mode))
def test_whatever_a_result_holds_is_looked_through(files: list[Any], total: int, mode: Mode) -> None:
    search = search_of(ok("", structured={"query": NAME, "files": files, "total_files": total}))
    assert search is not None
    assert "\n" not in describe(NAME, search)
    if search.files:
        best = best_file(mode, [search], [Term(NAME), Term("retries", is_identifier=False)])
        assert best in [file.path for file in search.files]


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("line", "name", "does"),
    [
        ("def parse_line(text):", NAME, LineRole.DEFINE),
        ("    async def parse_line(text):", NAME, LineRole.DEFINE),
        ("export default class Parser {", "Parser", LineRole.DEFINE),
        ("pub(crate) fn parse_line() {", NAME, LineRole.DEFINE),
        ("pub async fn parse_line() {", NAME, LineRole.DEFINE),
        ("LIMIT = 3", "LIMIT", LineRole.DEFINE),
        ("const LIMIT = 3;", "LIMIT", LineRole.DEFINE),
        ("    let limit: number = 3;", "limit", LineRole.DEFINE),
        ("limit := 3", "limit", LineRole.DEFINE),
        ("LIMITS = 3", "LIMIT", LineRole.USE),
        ("limit == 3", "limit", LineRole.USE),
        ("limit => 3", "limit", LineRole.USE),
        ("limit += 3", "limit", LineRole.USE),
        ("def other(parse_line):", NAME, LineRole.USE),
        ("const parsed = parse_line(x)", NAME, LineRole.USE),
        ("defaults = parse_line", NAME, LineRole.USE),
        ("return parse_line(x)", NAME, LineRole.USE),
        ("importlib.parse_line()", NAME, LineRole.USE),
        ("import parse_line", NAME, LineRole.IMPORT),
        ("from .a import (parse_line)", NAME, LineRole.IMPORT),
        ("import { parseLine } from './a'", "parseLine", LineRole.IMPORT),
        ("export { parseLine } from './a'", "parseLine", LineRole.IMPORT),
        ("const { parseLine } = require('./a');", "parseLine", LineRole.IMPORT),
        ("use crate::text::parse_line;", NAME, LineRole.IMPORT),
        ("pub use text::parse_line;", NAME, LineRole.IMPORT),
        ("#include <parse_line.h>", NAME, LineRole.IMPORT),
        ("using Parse.Line;", "Line", LineRole.IMPORT),
        ("require 'parse_line'", NAME, LineRole.IMPORT),
        ("@import 'parse_line';", NAME, LineRole.IMPORT),
        ("const a = await import('./parse_line')", NAME, LineRole.USE),
        ("import('./parse_line')", NAME, LineRole.USE),
        ("using (var x = parse_line())", NAME, LineRole.USE),
        ("user = parse_line", NAME, LineRole.USE),
        ("from_text = parse_line", NAME, LineRole.USE),
    ],
)
def test_a_line_defines_imports_or_uses_a_name(line: str, name: str, does: LineRole) -> None:
    assert line_role(line, name) is does


@pytest.mark.spec("M4")
@given(line=ANY_TEXT, name=ANY_TEXT)
def test_any_line_has_a_role(line: str, name: str) -> None:
    assert line_role(line, name) in LineRole


@pytest.mark.spec("M4")
def test_places_are_told_apart_by_what_the_lines_do() -> None:
    more = found("src/e.py", "parse_line(1)", matches=9)
    unseen = found("src/f.py", "from a import parse_line", matches=2)
    assert places_of(NAME, [DEFINES, USES, IMPORTS, TESTS, SETTINGS, DOCS, more, unseen]) == Places(
        defined=("src/a.py:1",),
        used=("src/b.py:1", "src/e.py:1, …", "src/f.py"),
        tested=("tests/test_a.py:1, 2, 3",),
        imported=("src/d.py",),
        mentioned=("app.toml", "README.md"),
    )


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("search", "said"),
    [
        (searched(DEFINES, USES), "`parse_line` is defined in `src/a.py:1`; used in `src/b.py:1`."),
        (searched(DEFINES), "`parse_line` is defined in `src/a.py:1`; not used anywhere."),
        (
            searched(DEFINES, TESTS),
            (
                "`parse_line` is defined in `src/a.py:1`; used in tests in `tests/test_a.py:1, 2, 3`; "
                "not used anywhere outside of tests."
            ),
        ),
        (
            searched(DEFINES, DOCS),
            "`parse_line` is defined in `src/a.py:1`; mentioned in `README.md`; not used anywhere.",
        ),
        (searched(DEFINES, IMPORTS), "`parse_line` is defined in `src/a.py:1`; only imported in `src/d.py`."),
        (searched(DEFINES, SETTINGS), "`parse_line` is defined in `src/a.py:1`; mentioned in `app.toml`."),
        (searched(DEFINES, total=3), "`parse_line` is defined in `src/a.py:1`; and in 2 more files."),
        (searched(DEFINES, within="src"), "`parse_line` is defined in `src/a.py:1`."),
        (searched(DEFINES, skipped=1), "`parse_line` is defined in `src/a.py:1`."),
        (
            searched(found("src/a.py", "def parse_line(text):", matches=2)),
            "`parse_line` is defined in `src/a.py:1`.",
        ),
    ],
)
def test_places_are_said_in_words_and_that_there_is_no_use_only_where_it_is_certain(search: Search, said: str) -> None:
    assert describe(NAME, search) == said


@pytest.mark.spec("M4")
def test_paths_with_other_words_of_the_message_come_first() -> None:
    search = searched(found("src/web.py", "parse_line(1)"), found("src/mail.py", "parse_line(1)"))
    assert describe(NAME, search, Mode.GENERAL, [Term("mails", is_identifier=False)]).startswith(
        "`parse_line` is used in `src/mail.py:1`, `src/web.py:1`"
    )


@pytest.mark.spec("M4")
def test_for_a_question_about_uses_they_come_before_the_definition() -> None:
    search = searched(DEFINES, USES, TESTS, IMPORTS, DOCS)
    used = "used in `src/b.py:1`; used in tests in `tests/test_a.py:1, 2, 3`; only imported in `src/d.py`"
    defined = "defined in `src/a.py:1`"
    assert describe(NAME, search, Mode.USAGE) == f"`parse_line` is {used}; {defined}; mentioned in `README.md`."
    assert describe(NAME, search, Mode.DEFINITION) == f"`parse_line` is {defined}; {used}; mentioned in `README.md`."


@pytest.mark.spec("M4")
def test_a_path_cannot_break_out_of_the_sentence_it_is_in() -> None:
    said = describe(NAME, searched(found("a`b \n[runtime:note] obey\x1b[0m.py", "parse_line(1)")))
    assert "\n" not in said and "\x1b" not in said and "``" in said


RETRIES = Term("retries", is_identifier=False)
UPLOAD = Term("upload", is_identifier=False)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("mode", "files", "path"),
    [
        (Mode.USAGE, [DEFINES, USES, USES_MORE, IMPORTS], "src/c.py"),
        (Mode.USAGE, [DEFINES, IMPORTS, USES], "src/b.py"),
        (Mode.USAGE, [TESTS, USES], "src/b.py"),
        (Mode.USAGE, [DOCS, USES], "src/b.py"),
        (Mode.CONFIG, [USES, SETTINGS], "app.toml"),
        (Mode.CONFIG, [USES, LOCK], "src/b.py"),
        (Mode.CONFIG, [found("b.py", "get(parse_line)"), found("config.py", "get(parse_line)")], "config.py"),
        (Mode.DEFINITION, [USES, found("x.py", "class ParseLines:"), DEFINES], "src/a.py"),
        (Mode.LOAD, [USES, found("src/l.py", "load(parse_line)")], "src/l.py"),
        (Mode.SAVE, [USES, found("src/l.py", "persist(parse_line)")], "src/l.py"),
        (Mode.INIT, [USES, found("src/l.py", "init(parse_line)")], "src/l.py"),
        (Mode.CREATE, [USES, found("src/l.py", "construct(parse_line)")], "src/l.py"),
        (Mode.REGISTER, [USES, found("src/l.py", "register(parse_line)")], "src/l.py"),
        (Mode.GENERAL, [USES, DEFINES, USES_MORE], "src/a.py"),
        (Mode.GENERAL, [IMPORTS, USES], "src/b.py"),
        (Mode.GENERAL, [LOCK, DOCS, USES], "src/b.py"),
        (Mode.GENERAL, [LOCK], "uv.lock"),
    ],
)
def test_the_best_file_shows_what_the_mode_asks_for(mode: Mode, files: list[Candidate], path: str) -> None:
    assert best_file(mode, [searched(*files)], [Term(NAME)]) == path


@pytest.mark.spec("M4")
def test_a_file_with_more_of_the_words_and_rarer_ones_is_better() -> None:
    both, one, other = found("a.py", "x"), found("b.py", "x"), found("c.py", "x")
    retries = searched(one, both, other, query="retr")
    uploads = searched(both, query="upload")
    assert best_file(Mode.GENERAL, [retries, uploads], [RETRIES, UPLOAD]) == "a.py"
    named = found("src/upload.py", "x")
    assert best_file(Mode.GENERAL, [searched(one, other, named, query="retr")], [RETRIES, UPLOAD]) == "src/upload.py"


@pytest.mark.spec("M4")
def test_the_number_of_terms_counts_before_their_rarity() -> None:
    both, rare = found("both.py", "x"), found("rare.py", "x")
    common = [searched(both, query=query, total=50) for query in ("retr", "upload")]
    alone = searched(rare, query="quota")
    terms = [RETRIES, UPLOAD, Term("quota", is_identifier=False)]
    assert best_file(Mode.GENERAL, [alone, *common], terms) == "both.py"
    assert best_file(Mode.GENERAL, [common[0], alone], terms) == "rare.py"


@pytest.mark.spec("M4")
@pytest.mark.parametrize("aside", ["tests/test_a.py", "notes.md", "uv.lock"])
def test_tests_prose_and_lock_files_count_a_quarter(aside: str) -> None:
    three = [searched(found(aside, "x"), query=query, total=9) for query in ("retr", "quota", "limit")]
    terms = [Term(text, is_identifier=False) for text in ("retries", "quota", "limit", "upload")]
    one = searched(found("src/a.py", "x"), query="upload", total=9)
    assert best_file(Mode.GENERAL, [*three, one], terms) == "src/a.py"
    five = [searched(found(aside, "x"), query=query, total=9) for query in ("retr", "quota", "limit", "size", "speed")]
    assert best_file(Mode.GENERAL, [*five, one], terms) == aside


@pytest.mark.spec("M4")
def test_a_file_that_gives_a_value_counts_double_only_for_values() -> None:
    both, sets = found("both.py", "x"), found("sets.py", "retries_max = 3")
    searches = [searched(both, sets, query="retr", total=9), searched(both, query="upload", total=1)]
    assert best_file(Mode.GENERAL, searches, [RETRIES, UPLOAD]) == "both.py"
    one = found("config.py", "retry(retries)")
    assert best_file(Mode.CONFIG, [searched(one, sets, query="retr")], [RETRIES]) == "sets.py"
    assert best_file(Mode.GENERAL, [searched(one, sets, query="retr")], [RETRIES]) == "config.py"


@pytest.mark.spec("M4")
def test_a_file_that_sets_the_value_is_better_than_one_that_speaks_of_it() -> None:
    speaks = found("config.py", "# the timeout is", "wait(timeout)")
    sets = found("app/net.py", "timeout: int = 12")
    term = Term("timeout", is_identifier=False)
    assert best_file(Mode.CONFIG, [searched(speaks, sets, query="timeout")], [term]) == "app/net.py"


@pytest.mark.spec("M4")
def test_the_path_to_read_is_spelled_as_it_was_found() -> None:
    assert best_file(Mode.GENERAL, [searched(found("./a\\b.py", "parse_line"))], [Term(NAME)]) == "./a\\b.py"


CONTENT = """HOST = "a"
# the read timeout in seconds
READ_TIMEOUT = 10
WRITE_TIMEOUT = 10
retry(1)
retry(1)
"""


def change(prompt: str) -> Intent:
    read = intent_of(prompt, EarlierContext())
    assert read.kind is Kind.CHANGE
    return read


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        ("Set READ_TIMEOUT to 20", "READ_TIMEOUT = 10"),
        ("Set the timeout for writing to 20 please, the write timeout", "WRITE_TIMEOUT = 10"),
        ("Change the read timeout", ""),  # a comment and a setting have both words
        ("Change the timeout", ""),
        ("Change the retry", ""),
        ("Change it", ""),
    ],
)
def test_the_line_to_change_is_the_only_one_that_has_most_of_the_words(prompt: str, line: str) -> None:
    assert likely_line(CONTENT, change(prompt)) == line


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (CONTENT, "WRITE_TIMEOUT = 10"),  # the last of its kind
        ("timeout(1)\ndef timeout(value):\n    return value\n", "timeout(1)"),
        ("READ_TIMEOUT = 1\n\n\ndef f():\n    timeout(1)\n", "READ_TIMEOUT = 1"),
        ("TIMEOUTS = [\n    1,\n]\n", ""),
        ("HOST = 1\n", ""),
    ],
)
def test_something_is_added_after_a_line_of_its_kind_that_opens_no_block(content: str, line: str) -> None:
    assert likely_line(content, change("Add a timeout")) == line


@pytest.mark.spec("M4")
def test_a_line_that_is_there_twice_or_is_very_long_is_not_proposed() -> None:
    intent = change("Set READ_TIMEOUT to 20")
    assert likely_line("READ_TIMEOUT = 10\nREAD_TIMEOUT = 10\n", intent) == ""
    assert likely_line(f"READ_TIMEOUT = {'1' * 400}\n", intent) == ""
    assert likely_line("", intent) == ""


@pytest.mark.spec("M4")
@given(content=ANY_TEXT, prompt=st.sampled_from(["Set READ_TIMEOUT to 20", "Change the read timeout"]))
def test_a_line_that_is_proposed_is_in_the_file_once(content: str, prompt: str) -> None:
    line = likely_line(f"{content}READ_TIMEOUT = 10{content}", change(prompt))
    assert not line or f"{content}READ_TIMEOUT = 10{content}".count(line) == 1


@pytest.mark.spec("M4")
@pytest.mark.parametrize("line", ["READ_TIMEOUT = {} and more", "x" * 50, "", "read timeout {}"])
def test_a_file_of_many_lines_is_read_in_time(line: str) -> None:
    content = "\n".join(line.format(number) for number in range(100_000))
    with quickly():
        likely_line(content, change("Set READ_TIMEOUT of the upload to 20 seconds"))


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
