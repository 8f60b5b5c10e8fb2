"""What a message asks for, read from its words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.surface import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.guardrails.intent import (
    EDIT,
    LIST,
    READ,
    SEARCH,
    DirectCall,
    EarlierContext,
    Intent,
    Mode,
    intent_of,
    is_identifier,
)
from tests.soak import rounds
from tests.text.strategies import ANY_TEXT

EARLIER = EarlierContext(read="src/last.py", query="parse_line", folder="src/net")
GIT, CHANGE, LOOK, ANSWER = GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, ANSWER_ONLY
NO, YES = False, True
USAGE, CONFIG, INIT, CREATE, REGISTER = Mode.USAGE, Mode.CONFIG, Mode.INIT, Mode.CREATE, Mode.REGISTER
LOAD, SAVE, DEFINED, GENERAL = Mode.LOAD, Mode.SAVE, Mode.DEFINITION, Mode.GENERAL

Row = tuple[str, Surface, bool, Mode, str | None, DirectCall | None]


def raw(path: str) -> DirectCall:
    return DirectCall(READ, {"path": path}, raw=True)


def about(path: str) -> DirectCall:
    return DirectCall(READ, {"path": path})


def lines(path: str, first: int, last: int) -> DirectCall:
    return DirectCall(READ, {"path": path, "offset": first, "limit": last - first + 1}, raw=True)


def edited(path: str, search: str, replace: str) -> DirectCall:
    return DirectCall(EDIT, {"path": path, "search": search, "replace": replace})


def searched(query: str) -> DirectCall:
    return DirectCall(SEARCH, {"query": query})


def listed(path: str) -> DirectCall:
    return DirectCall(LIST, {"path": path})


MESSAGES: list[Row] = [
    # prompt, surface, investigates, mode, scope, direct
    # A git question at the beginning beats everything.
    ("git status", GIT, NO, GENERAL, None, None),
    ("Git diff please", GIT, NO, GENERAL, None, None),
    ("show me the latest git log", GIT, NO, GENERAL, None, None),
    ("please run `git status`", GIT, NO, GENERAL, None, None),
    ("what's the current git status?", GIT, NO, GENERAL, None, None),
    ("show recent commits", GIT, NO, GENERAL, None, None),
    ("show the last 5 commits", GIT, NO, GENERAL, None, None),
    ("show working tree", GIT, NO, GENERAL, None, None),
    ("git diff, then write a summary of src/a.py", GIT, NO, GENERAL, None, None),
    ("where is git status rendered?", LOOK, YES, GENERAL, None, None),
    ("explain git_status", LOOK, YES, GENERAL, None, None),
    ("what is git?", ANSWER, NO, GENERAL, None, None),
    ("git push", ANSWER, NO, GENERAL, None, None),
    ("git statuses explained", ANSWER, NO, GENERAL, None, None),
    # A word of change, whole, plain, anywhere.
    ("please write a test for parse_line", CHANGE, NO, GENERAL, None, None),
    ("Update the docs", CHANGE, NO, GENERAL, None, None),
    ("could you (add) a flag?", CHANGE, NO, GENERAL, None, None),
    ("Delete `old.py`", CHANGE, NO, GENERAL, None, None),
    ("add/edit the notes", CHANGE, NO, GENERAL, None, None),
    ("read a.py and change the title", CHANGE, NO, GENERAL, None, None),
    ("Modify it—now", CHANGE, NO, GENERAL, None, None),
    ("where is write_file defined?", LOOK, YES, DEFINED, None, None),
    ("where is the session created?", LOOK, YES, CREATE, None, None),
    ("what does `write` mean?", ANSWER, NO, GENERAL, None, None),
    ('what does "add" mean?', ANSWER, NO, GENERAL, None, None),
    ("what does `add/edit` mean?", LOOK, NO, GENERAL, None, None),
    ("what does 'delete it' mean?", ANSWER, NO, GENERAL, None, None),
    ("what does “edit” mean?", ANSWER, NO, GENERAL, None, None),
    ("why is this slow?\n```\nwrite add update\n```", ANSWER, NO, GENERAL, None, None),
    ("why is this slow?\n```\necho `` write\n```", ANSWER, NO, GENERAL, None, None),
    ("why is this slow?\n~~~\nwrite add update\n~~~", ANSWER, NO, GENERAL, None, None),
    ("what does write() do?", ANSWER, NO, GENERAL, None, None),
    ("what is create-react-app?", ANSWER, NO, GENERAL, None, None),
    ("why is stream.write slow?", ANSWER, NO, GENERAL, None, None),
    ("what was changed or updated?", ANSWER, NO, GENERAL, None, None),
    ("show update.py", LOOK, NO, GENERAL, None, raw("update.py")),
    # An edit that is spelled out.
    ("edit a.py replace x with y", CHANGE, NO, GENERAL, None, None),
    ("Edit the file a.py: replace `foo bar` with `baz`", CHANGE, NO, GENERAL, None, edited("a.py", "foo bar", "baz")),
    ("in src/a.py, replace 'old' with \"new\".", CHANGE, NO, GENERAL, None, edited("src/a.py", "old", "new")),
    ('replace "a with b" with "" in src/c.py', CHANGE, NO, GENERAL, None, edited("src/c.py", "a with b", "")),
    ("edit a.py replace foo_a with bar_b.", CHANGE, NO, GENERAL, None, edited("a.py", "foo_a", "bar_b")),
    ("edit a.py replace foo(); with bar(); please", CHANGE, NO, GENERAL, None, edited("a.py", "foo();", "bar();")),
    ("replace getFoo with getBar in a.py, thanks!", CHANGE, NO, GENERAL, None, edited("a.py", "getFoo", "getBar")),
    ("replace foo with bar in a.py, thanks!", CHANGE, NO, GENERAL, None, None),
    ('edit "my file.md" and replace 2023 with 2024', CHANGE, NO, GENERAL, None, edited("my file.md", "2023", "2024")),
    ("edit a.py replace the loop with a comprehension", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace all foo_bar with baz", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace x = 1; with x = 2;", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace old_name with new_name when it is called", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace foo() with bar() - no wait, leave it", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace foo() with bar() (but ask me first)", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace `foo()` with `bar()` (but ask me first)", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace DEBUG=True with DEBUG=False unless it breaks tests", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace foo() with bar(): do not touch the tests", CHANGE, NO, GENERAL, None, None),
    ("replace foo() with bar() or baz() in a.py", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace TODO with nothing", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace everything with foo", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace tabs with spaces", CHANGE, NO, GENERAL, None, None),
    ("In a.py replace foo with bar?", CHANGE, NO, GENERAL, None, None),
    ("edit a.py:12 replace foo with bar", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace foo with bar with baz", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace f(x) with g(x) and then run it", CHANGE, NO, GENERAL, None, None),
    ('edit a.py replace "say "hi"" with "x"', CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace x with x", CHANGE, NO, GENERAL, None, None),
    ("edit a.py replace foo with bar\nand run the tests", CHANGE, NO, GENERAL, None, None),
    ("edit the parser replace x with y", CHANGE, NO, GENERAL, None, None),
    # A file to read: its content is the answer, or words about it.
    ("read a.py", LOOK, NO, GENERAL, None, raw("a.py")),
    ("Read the file src/main.rs.", LOOK, NO, GENERAL, None, raw("src/main.rs")),
    ("please show me src/a.py:42", LOOK, NO, GENERAL, None, lines("src/a.py", 42, 42)),
    ("view a.py:300-310", LOOK, NO, GENERAL, None, lines("a.py", 300, 310)),
    ("show `a.py#L3-L9`", LOOK, NO, GENERAL, None, lines("a.py", 3, 9)),
    ("show a.py:12:4", LOOK, NO, GENERAL, None, lines("a.py", 12, 12)),
    ("show a.py:0", LOOK, NO, GENERAL, None, None),
    ("show a.py:9-3", LOOK, NO, GENERAL, None, None),
    ("explain a.py:300-310", LOOK, NO, GENERAL, None, None),
    ("open `docs/guide.md`", LOOK, NO, GENERAL, None, raw("docs/guide.md")),
    ("cat bin/run", LOOK, NO, GENERAL, None, raw("bin/run")),
    ("print the contents of Makefile", LOOK, NO, GENERAL, None, raw("Makefile")),
    ("what is in src/a.py?", LOOK, NO, GENERAL, None, raw("src/a.py")),
    ("what does src/a.py contain?", LOOK, NO, GENERAL, None, raw("src/a.py")),
    ('read "my file.txt"', LOOK, NO, GENERAL, None, raw("my file.txt")),
    ("read ../other/x.py", LOOK, NO, GENERAL, None, raw("../other/x.py")),
    ("read ~/notes.txt", LOOK, NO, GENERAL, None, raw("~/notes.txt")),
    ("read /etc/passwd", LOOK, NO, GENERAL, None, raw("/etc/passwd")),
    ("read src\\net\\a.py", LOOK, NO, GENERAL, None, raw("src\\net\\a.py")),
    ("read .gitignore", LOOK, NO, GENERAL, None, raw(".gitignore")),
    ("explain src/a.py", LOOK, NO, GENERAL, None, about("src/a.py")),
    ("Summarise docs/guide.md, please", LOOK, NO, GENERAL, None, about("docs/guide.md")),
    ("what does parser.py do?", LOOK, NO, GENERAL, None, about("parser.py")),
    ("explain how parser.py works", LOOK, NO, GENERAL, None, about("parser.py")),
    ("read a.py and explain parse_line", LOOK, NO, GENERAL, None, about("a.py")),
    ("show a.py lines 10-20", LOOK, NO, GENERAL, None, about("a.py")),
    ("read a.py and b.py", LOOK, NO, GENERAL, None, None),
    ("read a.py and find where foo is called", LOOK, YES, USAGE, None, None),
    ("read README", LOOK, NO, GENERAL, None, None),
    ("show src/net", LOOK, NO, GENERAL, None, None),
    ("does CHANGELOG.md mention parsing?", LOOK, NO, GENERAL, None, None),
    ("explain Node.js", ANSWER, NO, GENERAL, None, None),
    ("what is request.json?", ANSWER, NO, GENERAL, None, None),
    ("explain version 3.12", ANSWER, NO, GENERAL, None, None),
    ("show https://example.com/a.py", ANSWER, NO, GENERAL, None, None),
    ("print hello", ANSWER, NO, GENERAL, None, None),
    # A folder to list.
    ("list src", LOOK, NO, GENERAL, None, listed("src")),
    ("list src/net/", LOOK, NO, GENERAL, None, listed("src/net")),
    ("ls", LOOK, NO, GENERAL, None, listed(".")),
    ("ls -la lib", LOOK, NO, GENERAL, None, listed("lib")),
    ("ls ..", LOOK, NO, GENERAL, None, listed("..")),
    ("list files", LOOK, NO, GENERAL, None, listed(".")),
    ("list all the files in src/net please", LOOK, NO, GENERAL, None, listed("src/net")),
    ("what files are in the Server folder?", LOOK, NO, GENERAL, None, listed("Server")),
    ("what files are in my_module?", LOOK, NO, GENERAL, None, listed("my_module")),
    ("what files are in this directory?", LOOK, NO, GENERAL, None, listed(".")),
    ("what is in the docs directory?", LOOK, NO, GENERAL, None, listed("docs")),
    ("show `src/net/`", LOOK, NO, GENERAL, None, listed("src/net")),
    ("list /", LOOK, NO, GENERAL, None, listed("/")),
    ("what files are in the server?", LOOK, NO, GENERAL, None, None),
    ("what files are in use?", LOOK, NO, GENERAL, None, None),
    ("what is in src/net?", LOOK, NO, GENERAL, "src/net", None),
    ("list all the python files in src", LOOK, NO, GENERAL, None, None),
    ("show the project structure", LOOK, NO, GENERAL, None, None),
    ("list commands", ANSWER, NO, GENERAL, None, None),
    # Something to find out.
    ("where is parse_line?", LOOK, YES, GENERAL, None, None),
    ("explain `SessionStore.open()`", LOOK, YES, GENERAL, None, None),
    ("how does getUserName work?", LOOK, YES, GENERAL, None, None),
    ("what happens in loop.py when it ends?", LOOK, YES, GENERAL, None, None),
    ("search for retries", LOOK, YES, GENERAL, None, None),
    ("which file handles logins?", LOOK, YES, GENERAL, None, None),
    ("locate the handler for uploads", LOOK, YES, GENERAL, None, None),
    ("where is parse_line used and configured?", LOOK, YES, USAGE, None, None),
    ("where is logging configured and initialised?", LOOK, YES, CONFIG, None, None),
    ("where is the cache initialised and loaded?", LOOK, YES, INIT, None, None),
    ("where are sessions created and saved?", LOOK, YES, CREATE, None, None),
    ("where is the hook registered?", LOOK, YES, REGISTER, None, None),
    ("find where the plugin is loaded", LOOK, YES, LOAD, None, None),
    ("where is the draft saved?", LOOK, YES, SAVE, None, None),
    ("where is TaskStatus implemented?", LOOK, YES, DEFINED, None, None),
    ("which function does parse_line call?", LOOK, YES, GENERAL, None, None),
    ("which functions call parse_line?", LOOK, YES, USAGE, None, None),
    ("it says (most recent call last) about parse_line", LOOK, YES, GENERAL, None, None),
    ("is `used` a field of SessionStore?", LOOK, YES, GENERAL, None, None),
    ("find a good restaurant", LOOK, NO, GENERAL, None, None),
    ("where do penguins live?", LOOK, NO, GENERAL, None, None),
    ("where do we set the timeout?", LOOK, NO, GENERAL, None, None),
    ("where is the host read?", LOOK, NO, GENERAL, None, None),
    ("find all TODOs", LOOK, NO, GENERAL, None, None),
    ("rename HttpClient to Client", CHANGE, NO, GENERAL, None, None),
    ("fix the TODO in client.py", CHANGE, NO, GENERAL, None, None),
    ("implement retry in HttpClient", CHANGE, NO, GENERAL, None, None),
    ("remove the line DEBUG from src/settings.py", CHANGE, NO, GENERAL, None, None),
    ("refactor src/app.py", CHANGE, NO, GENERAL, None, None),
    ("what is TypeScript?", ANSWER, NO, GENERAL, None, None),
    ("is HTTPS safe, and are URLs?", ANSWER, NO, GENERAL, None, None),
    ("what is a_b or x_1?", ANSWER, NO, GENERAL, None, None),
    ("research retries", ANSWER, NO, GENERAL, None, None),
    ("hello", ANSWER, NO, GENERAL, None, None),
    ("", ANSWER, NO, GENERAL, None, None),
    # Where it keeps to.
    ("where is parse_line used in src/net/?", LOOK, YES, USAGE, "src/net", None),
    ("where is parse_line used within the src/net folder", LOOK, YES, USAGE, "src/net", None),
    ("where is parse_line in `src/net`", LOOK, YES, GENERAL, "src/net", None),
    ("find parse_line in ./src/a.py:3", LOOK, YES, GENERAL, "./src/a.py", None),
    ("find parse_line in ../other/src", LOOK, YES, GENERAL, "../other/src", None),
    ("find parse_line in src", LOOK, YES, GENERAL, None, None),
    ("find parse_line in src/net or in src/web", LOOK, YES, GENERAL, None, None),
    ("find parse_line in src/net and src/web", LOOK, YES, GENERAL, None, None),
    ("find parse_line in src/net, src/web", LOOK, YES, GENERAL, None, None),
    ("find parse_line in the src/net or the src/web folder", LOOK, YES, GENERAL, None, None),
    ("find parse_line in src/net and tests", LOOK, YES, GENERAL, None, None),
    ("find parse_line in src/net and why it fails", LOOK, YES, GENERAL, "src/net", None),
    ("find parse_line in src/net, only in src/net", LOOK, YES, GENERAL, "src/net", None),
    ("find parse_line in https://example.com/src", LOOK, YES, GENERAL, None, None),
    ("where is parse_line in the request/response cycle?", LOOK, YES, GENERAL, None, None),
    ("where is parse_line in 2024/05?", LOOK, YES, GENERAL, None, None),
    ('where is "in src/net" parsed by parse_line?', LOOK, YES, GENERAL, None, None),
    # What was done before.
    ("read that file", LOOK, NO, GENERAL, None, raw("src/last.py")),
    ("Read that file again!", LOOK, NO, GENERAL, None, raw("src/last.py")),
    ("search that again", LOOK, YES, GENERAL, None, searched("parse_line")),
    ("search that again in the same folder", LOOK, YES, GENERAL, "src/net", searched("parse_line")),
    ("find open_session in the same folder", LOOK, YES, GENERAL, "src/net", None),
    ("read that file over there", LOOK, NO, GENERAL, None, None),
    ("search that again, but better", LOOK, YES, GENERAL, None, None),
]  # fmt: skip


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(("prompt", "surface", "investigates", "mode", "scope", "direct"), MESSAGES)
def test_a_message_is_read_as_it_is_meant(
    prompt: str, surface: Surface, investigates: bool, mode: Mode, scope: str | None, direct: DirectCall | None
) -> None:
    read = intent_of(prompt, EARLIER)
    found = (read.surface.name, read.investigates, read.mode, read.scope, read.direct)
    assert found == (surface.name, investigates, mode, scope, direct)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "broad"),
    [
        ("find all usages of parse_line", True),
        ("where is parse_line used everywhere?", True),
        ("find every call of parse_line", True),
        ("who are the callers of parse_line?", True),
        ("find occurrences of parse_line", True),
        ("where is parse_line used?", False),
        ("is parse_line used at all?", False),
        ("what uses parse_line?", False),
        ("what is `all` in parse_line?", False),
    ],
)
def test_a_question_for_all_places_is_broad(prompt: str, broad: bool) -> None:
    read = intent_of(prompt, EarlierContext())
    assert read.investigates
    assert read.broad is broad


@pytest.mark.spec("M4")
def test_words_about_the_past_ask_for_nothing_where_there_is_none() -> None:
    nothing = EarlierContext()
    assert intent_of("read that file again", nothing) == Intent(surface=RETRIEVAL_FIRST)
    assert intent_of("search that again", nothing) == Intent(surface=RETRIEVAL_FIRST, investigates=True)
    assert intent_of("find open_session in the same folder", nothing).scope is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "name", ["parse_line", "MAX_ROUNDS", "_private_name", "__init__", "HTTPServer", "SessionStore", "getUser"]
)
def test_an_identifier_is_known_by_its_look(name: str) -> None:
    assert is_identifier(name)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "name", ["a_b", "x_1", "_", "foo__bar", "Hello", "README", "HTTPs", "iPhone", "macOS", "GitHub", "AbCd"]
)
def test_other_words_are_no_identifiers(name: str) -> None:
    assert not is_identifier(name)


SCRAPS = (
    "read show list edit replace with in the within search where is used all git status `a.py` a.py src/net src/net/ "
    "parse_line write that file again folder same \" ' ` ( ) . .. / ~ : 12 // ``` \n — http://x/y.py SessionStore and"
)
MESSY = st.lists(st.sampled_from(SCRAPS.split(" ")), max_size=14).map(" ".join) | ANY_TEXT
PASTS = st.builds(
    EarlierContext,
    read=st.none() | st.just("src/last.py"),
    query=st.none() | st.just("parse_line"),
    folder=st.none() | st.just("src/old"),
)


@pytest.mark.spec("M4", "P6")
@given(text=MESSY, earlier=PASTS)
def test_any_text_is_read_and_always_the_same_way(text: str, earlier: EarlierContext) -> None:
    read = intent_of(text, earlier)
    assert read == intent_of(text, earlier)
    assert read.surface in (ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST)
    if read.investigates:
        assert read.surface == RETRIEVAL_FIRST
        assert read.direct is None or read.direct.tool == SEARCH
    else:
        assert read.mode is Mode.GENERAL
        assert not read.broad
    if read.direct is not None:
        assert read.surface == (MUTATION_ENABLED if read.direct.tool == EDIT else RETRIEVAL_FIRST)


@pytest.mark.spec("M4")
@given(text=MESSY, earlier=PASTS)
def test_no_path_is_invented(text: str, earlier: EarlierContext) -> None:
    read = intent_of(text, earlier)
    known = (earlier.read, earlier.folder, ".")
    args = {} if read.direct is None or read.direct.tool == SEARCH else read.direct.args
    assert "path" not in args or args["path"] in known or str(args["path"]) in text
    assert str(args.get("search", "")) in text and str(args.get("replace", "")) in text
    assert read.scope is None or read.scope in known or read.scope in text


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=8)
PATHS = st.lists(NAMES, min_size=2, max_size=4).map(lambda parts: f"{'/'.join(parts)}.py")


@pytest.mark.spec("M4")
@given(path=PATHS, old=NAMES, new=NAMES)
def test_a_path_and_texts_that_are_spelled_out_are_taken_as_they_are(path: str, old: str, new: str) -> None:
    assert intent_of(f"read {path}", EARLIER).direct == raw(path)
    assert intent_of(f"Explain `{path}`.", EARLIER).direct == about(path)
    edit = intent_of(f'edit {path} replace "{old}" with "{new}!"', EARLIER).direct
    assert edit == edited(path, old, f"{new}!")


@pytest.mark.spec("M4", "P6")
@given(text=MESSY)
def test_words_in_quotes_never_ask_for_a_change(text: str) -> None:
    quoted = text.replace("`", "").replace("\n", " ")
    assert intent_of(f"what means `{quoted} write`?", EARLIER).surface != MUTATION_ENABLED
    assert intent_of(f"what means `{quoted} write`? update it", EARLIER).surface == MUTATION_ENABLED


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "unit",
    ["a ", "`", "``x", "'a ", '"', "“", "‘a’b", "(", "a/", "a.", "x_y_", "::1", "in the ", " ", "```\n", "please "],
)
def test_a_message_of_any_length_is_read_as_well(unit: str) -> None:
    long = unit * (rounds(100_000, 1_000_000) // len(unit))
    assert intent_of(f"read {long}\nupdate", EARLIER).surface in (MUTATION_ENABLED, RETRIEVAL_FIRST)
    assert intent_of(f"edit a.py replace {long} with x", EARLIER).direct is None


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "edit",
    [
        "replace the line old_name with new_name",
        "replace the word old_name with new_name",
        "replace the content old_name with new_name",
        "replace the text old_name with `new_name`",
        "replace hyphens with underscores",
        "replace localhost with production",
        "replace old_name with uppercase",
        "replace v1 with v2",
        "replace TODO with DONE",
        'replace "foo" with bar',
    ],
)
def test_an_edit_that_could_mean_something_else_is_left_to_the_model(edit: str) -> None:
    assert intent_of(f"In a.py {edit}", EARLIER).direct is None
    assert intent_of(f"{edit} in a.py", EARLIER).direct is None
    assert intent_of("In a.py replace the line `old` with `new`", EARLIER).direct == edited("a.py", "old", "new")
