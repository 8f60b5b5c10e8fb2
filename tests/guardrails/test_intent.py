"""What a message asks for, read from its words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.guardrails.intent import (
    EDIT,
    LIST,
    MAX_TERMS,
    READ,
    SEARCH,
    DirectCall,
    EarlierContext,
    Intent,
    Kind,
    Mode,
    Term,
    intent_of,
    is_identifier,
)
from tests.soak import rounds, some
from tests.text.strategies import ANY_TEXT

EARLIER = EarlierContext(read="src/last.py", query="parse_line", folder="src/net")
GIT, CHANGE, LOOK, ASK, OTHER = Kind.GIT, Kind.CHANGE, Kind.LOOKUP, Kind.QUESTION, Kind.OTHER
USAGE, CONFIG, INIT, CREATE, REGISTER = Mode.USAGE, Mode.CONFIG, Mode.INIT, Mode.CREATE, Mode.REGISTER
LOAD, SAVE, DEFINED, GENERAL = Mode.LOAD, Mode.SAVE, Mode.DEFINITION, Mode.GENERAL

Row = tuple[str, Kind, Mode, str | None, DirectCall | None]


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


def git(tool: str) -> DirectCall:
    return DirectCall(tool, {})


MESSAGES: list[Row] = [
    # prompt, kind, mode, scope, direct
    # A git question at the beginning beats everything.
    ("git status", GIT, GENERAL, None, git("git.status")),
    ("Git diff please", GIT, GENERAL, None, git("git.diff")),
    ("show me the latest git log", GIT, GENERAL, None, git("git.log")),
    ("please run `git status`", OTHER, GENERAL, None, None),
    ("what's the current git status?", GIT, GENERAL, None, git("git.status")),
    ("show recent commits", GIT, GENERAL, None, git("git.log")),
    ("show the last 5 commits", GIT, GENERAL, None, git("git.log")),
    ("show working tree", GIT, GENERAL, None, git("git.status")),
    ("git diff, then write a summary of src/a.py", CHANGE, DEFINED, None, None),
    ("where is git status rendered?", LOOK, GENERAL, None, None),
    ("explain git_status", LOOK, GENERAL, None, None),
    ("what is git?", ASK, GENERAL, None, None),
    ("git push", OTHER, GENERAL, None, None),
    ("git statuses explained", OTHER, GENERAL, None, None),
    # A word of change, whole, plain, anywhere.
    ("please write a test for parse_line", CHANGE, DEFINED, None, None),
    ("Update the docs", CHANGE, DEFINED, None, None),
    ("could you (add) a flag?", CHANGE, DEFINED, None, None),
    ("Delete `old.py`", CHANGE, DEFINED, None, None),
    ("add/edit the notes", CHANGE, DEFINED, None, None),
    ("read a.py and change the title", CHANGE, DEFINED, None, None),
    ("Modify it—now", CHANGE, DEFINED, None, None),
    ("where is write_file defined?", LOOK, DEFINED, None, None),
    ("where is the session created?", LOOK, CREATE, None, None),
    ("what does `write` mean?", LOOK, GENERAL, None, None),
    ('what does "add" mean?', LOOK, GENERAL, None, None),
    ("what does `add/edit` mean?", OTHER, GENERAL, None, None),
    ("what does 'delete it' mean?", OTHER, GENERAL, None, None),
    ("what does “edit” mean?", LOOK, GENERAL, None, None),
    ("why is this slow?\n```\nwrite add update\n```", ASK, GENERAL, None, None),
    ("why is this slow?\n```\necho `` write\n```", ASK, GENERAL, None, None),
    ("why is this slow?\n~~~\nwrite add update\n~~~", ASK, GENERAL, None, None),
    ("what does write() do?", LOOK, GENERAL, None, None),
    ("what is create-react-app?", ASK, GENERAL, None, None),
    ("why is stream.write slow?", ASK, GENERAL, None, None),
    ("what was changed or updated?", ASK, GENERAL, None, None),
    ("show update.py", LOOK, GENERAL, None, raw("update.py")),
    # An edit that is spelled out.
    ("edit a.py replace x with y", CHANGE, DEFINED, None, None),
    ("Edit the file a.py: replace `foo bar` with `baz`", CHANGE, DEFINED, None, edited("a.py", "foo bar", "baz")),
    ("in src/a.py, replace 'old' with \"new\".", CHANGE, DEFINED, None, edited("src/a.py", "old", "new")),
    ('replace "a with b" with "" in src/c.py', CHANGE, DEFINED, None, edited("src/c.py", "a with b", "")),
    ("edit a.py replace foo_a with bar_b.", CHANGE, DEFINED, None, edited("a.py", "foo_a", "bar_b")),
    ("edit a.py replace foo(); with bar(); please", CHANGE, DEFINED, None, edited("a.py", "foo();", "bar();")),
    ("replace getFoo with getBar in a.py, thanks!", CHANGE, DEFINED, None, edited("a.py", "getFoo", "getBar")),
    ("replace foo with bar in a.py, thanks!", CHANGE, DEFINED, None, None),
    ('edit "my file.md" and replace 2023 with 2024', CHANGE, DEFINED, None, edited("my file.md", "2023", "2024")),
    ("edit a.py replace the loop with a comprehension", CHANGE, DEFINED, None, None),
    ("edit a.py replace all foo_bar with baz", CHANGE, DEFINED, None, None),
    ("edit a.py replace x = 1; with x = 2;", CHANGE, DEFINED, None, None),
    ("In a.py replace old_name with new_name when it is called", CHANGE, DEFINED, None, None),
    ("edit a.py replace foo() with bar() - no wait, leave it", CHANGE, DEFINED, None, None),
    ("In a.py replace foo() with bar() (but ask me first)", CHANGE, DEFINED, None, None),
    ("In a.py replace `foo()` with `bar()` (but ask me first)", CHANGE, DEFINED, None, None),
    ("edit a.py replace DEBUG=True with DEBUG=False unless it breaks tests", CHANGE, DEFINED, None, None),
    ("edit a.py replace foo() with bar(): do not touch the tests", CHANGE, DEFINED, None, None),
    ("replace foo() with bar() or baz() in a.py", CHANGE, DEFINED, None, None),
    ("In a.py replace TODO with nothing", CHANGE, DEFINED, None, None),
    ("In a.py replace everything with foo", CHANGE, DEFINED, None, None),
    ("In a.py replace tabs with spaces", CHANGE, DEFINED, None, None),
    ("In a.py replace foo with bar?", CHANGE, DEFINED, None, None),
    ("edit a.py:12 replace foo with bar", CHANGE, DEFINED, None, None),
    ("edit a.py replace foo with bar with baz", CHANGE, DEFINED, None, None),
    ("edit a.py replace f(x) with g(x) and then run it", CHANGE, DEFINED, None, None),
    ('edit a.py replace "say "hi"" with "x"', CHANGE, DEFINED, None, None),
    ("edit a.py replace x with x", CHANGE, DEFINED, None, None),
    ("edit a.py replace foo with bar\nand run the tests", CHANGE, DEFINED, None, None),
    ("edit the parser replace x with y", CHANGE, DEFINED, None, None),
    # A file to read: its content is the answer, or words about it.
    ("read a.py", LOOK, GENERAL, None, raw("a.py")),
    ("Read the file src/main.rs.", LOOK, GENERAL, None, raw("src/main.rs")),
    ("please show me src/a.py:42", LOOK, GENERAL, None, lines("src/a.py", 42, 42)),
    ("view a.py:300-310", LOOK, GENERAL, None, lines("a.py", 300, 310)),
    ("show `a.py#L3-L9`", LOOK, GENERAL, None, lines("a.py", 3, 9)),
    ("show a.py:12:4", LOOK, GENERAL, None, lines("a.py", 12, 12)),
    ("show a.py:0", LOOK, GENERAL, None, None),
    ("show a.py:9-3", LOOK, GENERAL, None, None),
    ("explain a.py:300-310", LOOK, GENERAL, None, None),
    ("open `docs/guide.md`", LOOK, GENERAL, None, raw("docs/guide.md")),
    ("cat bin/run", LOOK, GENERAL, None, raw("bin/run")),
    ("print the contents of Makefile", LOOK, GENERAL, None, raw("Makefile")),
    ("what is in src/a.py?", LOOK, GENERAL, None, raw("src/a.py")),
    ("what does src/a.py contain?", LOOK, GENERAL, None, raw("src/a.py")),
    ('read "my file.txt"', LOOK, GENERAL, None, raw("my file.txt")),
    ("read ../other/x.py", LOOK, GENERAL, None, raw("../other/x.py")),
    ("read ~/notes.txt", LOOK, GENERAL, None, raw("~/notes.txt")),
    ("read /etc/passwd", LOOK, GENERAL, None, raw("/etc/passwd")),
    ("read src\\net\\a.py", LOOK, GENERAL, None, raw("src\\net\\a.py")),
    ("read .gitignore", LOOK, GENERAL, None, raw(".gitignore")),
    ("explain src/a.py", LOOK, GENERAL, None, about("src/a.py")),
    ("Summarise docs/guide.md, please", LOOK, GENERAL, None, about("docs/guide.md")),
    ("what does parser.py do?", LOOK, GENERAL, None, about("parser.py")),
    ("explain how parser.py works", LOOK, GENERAL, None, about("parser.py")),
    ("read a.py and explain parse_line", LOOK, GENERAL, None, about("a.py")),
    ("show a.py lines 10-20", LOOK, GENERAL, None, about("a.py")),
    ("read a.py and b.py", LOOK, GENERAL, None, None),
    ("read a.py and find where foo is called", LOOK, USAGE, None, None),
    ("read README", OTHER, GENERAL, None, None),
    ("show src/net", OTHER, GENERAL, None, None),
    ("does CHANGELOG.md mention parsing?", LOOK, GENERAL, None, None),
    ("explain Node.js", OTHER, GENERAL, None, None),
    ("what is request.json?", ASK, GENERAL, None, None),
    ("explain version 3.12", OTHER, GENERAL, None, None),
    ("show https://example.com/a.py", OTHER, GENERAL, None, None),
    ("print hello", OTHER, GENERAL, None, None),
    # A folder to list.
    ("list src", LOOK, GENERAL, None, listed("src")),
    ("list src/net/", LOOK, GENERAL, None, listed("src/net")),
    ("ls", LOOK, GENERAL, None, listed(".")),
    ("ls -la lib", LOOK, GENERAL, None, listed("lib")),
    ("ls ..", LOOK, GENERAL, None, listed("..")),
    ("list files", LOOK, GENERAL, None, listed(".")),
    ("list all the files in src/net please", LOOK, GENERAL, None, listed("src/net")),
    ("what files are in the Server folder?", LOOK, GENERAL, None, listed("Server")),
    ("what files are in my_module?", LOOK, GENERAL, None, listed("my_module")),
    ("what files are in this directory?", LOOK, GENERAL, None, listed(".")),
    ("what is in the docs directory?", LOOK, GENERAL, None, listed("docs")),
    ("show `src/net/`", LOOK, GENERAL, None, listed("src/net")),
    ("list /", LOOK, GENERAL, None, listed("/")),
    ("what files are in the server?", ASK, GENERAL, None, None),
    ("what files are in use?", OTHER, USAGE, None, None),
    ("what is in src/net?", OTHER, GENERAL, "src/net", None),
    ("list all the python files in src", OTHER, GENERAL, None, None),
    ("show the project structure", OTHER, GENERAL, None, None),
    ("list commands", OTHER, GENERAL, None, None),
    # Something to find out.
    ("where is parse_line?", LOOK, GENERAL, None, None),
    ("explain `SessionStore.open()`", LOOK, GENERAL, None, None),
    ("how does getUserName work?", LOOK, GENERAL, None, None),
    ("what happens in loop.py when it ends?", LOOK, GENERAL, None, None),
    ("search for retries", LOOK, GENERAL, None, None),
    ("which file handles logins?", LOOK, GENERAL, None, None),
    ("locate the handler for uploads", LOOK, GENERAL, None, None),
    ("where is parse_line used and configured?", LOOK, USAGE, None, None),
    ("where is logging configured and initialised?", LOOK, CONFIG, None, None),
    ("where is the cache initialised and loaded?", LOOK, INIT, None, None),
    ("where are sessions created and saved?", LOOK, CREATE, None, None),
    ("where is the hook registered?", LOOK, REGISTER, None, None),
    ("find where the plugin is loaded", LOOK, LOAD, None, None),
    ("where is the draft saved?", LOOK, SAVE, None, None),
    ("where is TaskStatus implemented?", LOOK, DEFINED, None, None),
    ("which function does parse_line call?", LOOK, GENERAL, None, None),
    ("which functions call parse_line?", LOOK, USAGE, None, None),
    ("it says (most recent call last) about parse_line", LOOK, GENERAL, None, None),
    ("is `used` a field of SessionStore?", LOOK, GENERAL, None, None),
    ("find a good restaurant", OTHER, GENERAL, None, None),
    ("where do penguins live?", ASK, GENERAL, None, None),
    ("where do we set the timeout?", ASK, GENERAL, None, None),
    ("where is the host read?", ASK, GENERAL, None, None),
    ("find all TODOs", OTHER, GENERAL, None, None),
    ("rename HttpClient to Client", CHANGE, DEFINED, None, None),
    ("fix the TODO in client.py", CHANGE, DEFINED, None, None),
    ("implement retry in HttpClient", CHANGE, DEFINED, None, None),
    ("remove the line DEBUG from src/settings.py", CHANGE, DEFINED, None, None),
    ("refactor src/app.py", CHANGE, DEFINED, None, None),
    ("what is TypeScript?", ASK, GENERAL, None, None),
    ("is HTTPS safe, and are URLs?", ASK, GENERAL, None, None),
    ("what is a_b or x_1?", OTHER, GENERAL, None, None),
    ("research retries", OTHER, GENERAL, None, None),
    ("hello", OTHER, GENERAL, None, None),
    ("", OTHER, GENERAL, None, None),
    # Where it keeps to.
    ("where is parse_line used in src/net/?", LOOK, USAGE, "src/net", None),
    ("where is parse_line used within the src/net folder", LOOK, USAGE, "src/net", None),
    ("where is parse_line in `src/net`", LOOK, GENERAL, "src/net", None),
    ("find parse_line in ./src/a.py:3", LOOK, GENERAL, "./src/a.py", None),
    ("find parse_line in ../other/src", LOOK, GENERAL, "../other/src", None),
    ("find parse_line in src", LOOK, GENERAL, None, None),
    ("find parse_line in src/net or in src/web", LOOK, GENERAL, None, None),
    ("find parse_line in src/net and src/web", LOOK, GENERAL, None, None),
    ("find parse_line in src/net, src/web", LOOK, GENERAL, None, None),
    ("find parse_line in the src/net or the src/web folder", LOOK, GENERAL, None, None),
    ("find parse_line in src/net and tests", LOOK, GENERAL, None, None),
    ("find parse_line in src/net and why it fails", LOOK, GENERAL, "src/net", None),
    ("find parse_line in src/net, only in src/net", LOOK, GENERAL, "src/net", None),
    ("find parse_line in https://example.com/src", LOOK, GENERAL, None, None),
    ("where is parse_line in the request/response cycle?", LOOK, GENERAL, None, None),
    ("where is parse_line in 2024/05?", LOOK, GENERAL, None, None),
    ('where is "in src/net" parsed by parse_line?', LOOK, GENERAL, None, None),
    # What was done before.
    ("read that file", LOOK, GENERAL, None, raw("src/last.py")),
    ("Read that file again!", LOOK, GENERAL, None, raw("src/last.py")),
    ("search that again", LOOK, GENERAL, None, searched("parse_line")),
    ("search that again in the same folder", LOOK, GENERAL, "src/net", searched("parse_line")),
    ("find open_session in the same folder", LOOK, GENERAL, "src/net", None),
    ("read that file over there", OTHER, GENERAL, None, None),
    ("search that again, but better", LOOK, GENERAL, None, None),
]


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(("prompt", "kind", "mode", "scope", "direct"), MESSAGES)
def test_a_message_is_read_as_it_is_meant(
    prompt: str, kind: Kind, mode: Mode, scope: str | None, direct: DirectCall | None
) -> None:
    read = intent_of(prompt, EARLIER)
    assert (read.kind, read.mode, read.scope, read.direct) == (kind, mode, scope, direct)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("tool", "prompt"),
    [
        ("git.log", "what was the last git commit?"),
        ("git.log", "what is the last commit about?"),
        ("git.log", "who made the latest commit?"),
        ("git.log", "git log"),
        ("git.log", "show me the git history"),
        ("git.log", "list the commits"),
        ("git.log", "show the last 5 commits"),
        ("git.log", "how many commits are there?"),
        ("git.log", "when was the most recent commit?"),
        ("git.log", "what did the previous commit change?"),
        ("git.log", "last commit message"),
        ("git.log", "who committed last?"),
        ("git.log", "show me the commit history of this repo"),
        ("git.log", "which commits were made today?"),
        ("git.log", "the last git commit"),
        ("git.log", "what's the newest commit?"),
        ("git.status", "git status"),
        ("git.status", "what is not committed yet?"),
        ("git.status", "which branch are we on?"),
        ("git.status", "what branch am i on"),
        ("git.status", "are there untracked files?"),
        ("git.status", "is there anything to commit?"),
        ("git.status", "which files are modified?"),
        ("git.status", "what files have changed?"),
        ("git.status", "what changed in src/app.py since the last commit?"),
        ("git.status", "show the working tree"),
        ("git.status", "what hasn't been committed?"),
        ("git.status", "do i have unstaged files?"),
        ("git.status", "did i forget to commit something?"),
        ("git.diff", "git diff"),
        ("git.diff", "show me the diff"),
        ("git.diff", "show my uncommitted changes"),
        ("git.diff", "show the changes"),
        ("git.diff", "what have i changed?"),
        ("git.diff", "what did we change?"),
        ("git.diff", "what are my local changes?"),
        ("git.diff", "please show me all changes"),
    ],
)
def test_a_question_that_git_answers_is_put_to_git(tool: str, prompt: str) -> None:
    read = intent_of(prompt, EARLIER)
    assert (read.kind, read.direct) == (GIT, git(tool))


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "prompt",
    [
        "where do we commit the transaction?",
        "which commit hash does the build use?",
        "where is the diff computed?",
        "how does it handle uncommitted transactions?",
        "what does `git_log` do?",
        "explain git_status",
        "which function renders the git log?",
        "commit the changes",
        "please push the last commit",
        "show me the diff and commit it",
        "undo the last commit",
        "what does the last commit say about parse_line?",
    ],
)
def test_what_only_sounds_like_git_is_not_put_to_it(prompt: str) -> None:
    read = intent_of(prompt, EARLIER)
    assert read.kind is not GIT and read.direct is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "terms", "words"),
    [
        ("How does parse_line work?", ["parse_line"], ["parse"]),
        ("How often do we retry uploads?", ["uploads", "often", "retry"], ["uploads", "often", "retry"]),
        ("Are retries and retrying the same?", ["retrying"], ["retrying"]),
        ("What is the time-out of HttpClient?", ["HttpClient"], ["httpclient", "time-out", "client"]),
        ("What does `get` do?", ["get"], []),
        ("What does run() do?", ["run"], []),
        ("Who calls who?", [], []),
        ("What are aa_aa, bb_bb, cc_cc, dd_dd and ee_ee?", ["aa_aa", "bb_bb", "cc_cc", "dd_dd"], []),
        (f"What is {'a' * 41}?", [], []),
    ],
)
def test_what_to_search_for_is_the_identifiers_or_else_the_telling_words(
    prompt: str, terms: list[str], words: list[str]
) -> None:
    read = intent_of(prompt, EARLIER)
    assert [term.text for term in read.terms] == terms
    assert [term.text for term in read.words] == words


@pytest.mark.spec("M4")
def test_a_word_is_searched_in_every_form_and_an_identifier_as_it_is() -> None:
    assert Term("retries", is_identifier=False).search == {"query": "retr", "case": "insensitive"}
    assert Term("time-outs", is_identifier=False).search == {
        "query": "time[-_ ]?out", "regex": True, "case": "insensitive"
    }  # fmt: skip
    assert Term("Retries").search == {"query": "Retries"}
    assert Term("time-outs", is_identifier=False).is_in("a timeout is")
    assert not Term("retries", is_identifier=False).is_in("a rest")


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("Where is parse_line?", True),
        ("Which functions call parse_line?", True),
        ("let me know where parse_line is", True),
        ("Is parse_line used?", True),
        ("What does parse_line do?", False),
        ("Find parse_line and rename it to parse_row", False),
    ],
)
def test_a_message_that_asks_for_places_is_known(prompt: str, asks: bool) -> None:
    assert intent_of(prompt, EARLIER).asks_where is asks


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "renamed"),
    [
        ("Rename parse_line to parse_row", ("parse_line", "parse_row")),
        ("please rename `get` to `fetch` everywhere", ("get", "fetch")),
        ("rename the function open_it() to open_socket in src/net.py", ("open_it", "open_socket")),
        ("rename foo to bar", ("foo", "bar")),
        ("rename the class foo to bar and update the tests", ("foo", "bar")),
        ("rename it to parse_row", None),
        ("rename this to that", None),
        ("rename the parameter to foo", None),
        ("rename foo to something better", None),
        ("rename foo to snake case", None),
        ("rename foo.py to bar.py", None),
        ("rename parse_line", None),
        ("rename parse_line to", None),
        ("rename", None),
    ],
)
def test_a_rename_has_two_names_that_are_certainly_names(prompt: str, renamed: tuple[str, str] | None) -> None:
    read = intent_of(prompt, EARLIER)
    assert (read.kind, read.renamed) == (CHANGE, renamed)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "creates", "asks_first"),
    [
        ("Create hello.txt", True, False),
        ("Write a new module that parses dates", True, False),
        ("Add a file for the settings", True, False),
        ("Add a retry to the upload", False, False),
        ("Fix the loop in a.py", False, False),
        ("Change A to 2 in a.py, but ask me before", False, True),
        ("Edit a.py replace x with y - no wait, leave it", False, True),
        ("Suggest how to fix it and update it", False, True),
    ],
)
def test_a_new_file_and_a_change_that_waits_are_known(prompt: str, creates: bool, asks_first: bool) -> None:
    read = intent_of(prompt, EARLIER)
    assert (read.kind, read.creates, read.asks_first) == (CHANGE, creates, asks_first)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "acts"),
    [
        ("Run the tests in tests/test_app.py", True),
        ("Update the readme and commit it", True),
        ("Fix parse_line, then re-run the build", True),
        ("Can you install the package?", True),
        ("Where do we run the migrations?", False),
        ("Fix the test runner", False),
        ("What does `run` do?", False),
    ],
)
def test_a_message_that_asks_to_run_something_is_known(prompt: str, acts: bool) -> None:
    assert intent_of(prompt, EARLIER).acts is acts


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "prompt", ["This is great work", "The weather is nice today", "hello there", "set up the project"]
)
def test_a_remark_is_not_a_question(prompt: str) -> None:
    assert intent_of(prompt, EARLIER).kind is OTHER


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Look up the retry limit of uploads", ASK),
        ("Give me the gateway's timeout", ASK),
        ("tell me the upload retry count", ASK),
        ("look up retries", OTHER),
        ("tell me the port", OTHER),
    ],
)
def test_a_request_to_look_up_two_telling_words_is_a_question(prompt: str, kind: Kind) -> None:
    assert intent_of(prompt, EarlierContext()).kind is kind


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "queries"),
    [("Give me the gateway's timeout", ["gatewa", "timeout"]), ("How do I run it locally?", ["local"])],
)
def test_a_genitive_and_an_adverb_are_searched_as_their_word(prompt: str, queries: list[str]) -> None:
    assert [term.search["query"] for term in intent_of(prompt, EarlierContext()).terms] == queries


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "adds"),
    [
        ("Add a limit to a.py", True),
        ("Append a limit to a.py", True),
        ("Insert a limit in a.py", True),
        ("Change the limit in a.py", False),
    ],
)
def test_a_request_to_add_something_is_known(prompt: str, adds: bool) -> None:
    intent = intent_of(prompt, EarlierContext())
    assert (intent.kind, intent.adds) == (CHANGE, adds)


@pytest.mark.spec("M4")
def test_words_about_the_past_ask_for_nothing_where_there_is_none() -> None:
    nothing = EarlierContext()
    assert intent_of("read that file again", nothing) == Intent(kind=LOOK)
    assert intent_of("search that again", nothing).direct is None
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
    assert len(read.terms) <= MAX_TERMS and len(read.words) <= MAX_TERMS
    if read.direct is not None:
        reads = GIT if read.direct.tool.startswith("git.") else LOOK
        assert read.kind is (CHANGE if read.direct.tool == EDIT else reads)


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
    assert intent_of(f"what means `{quoted} write`?", EARLIER).kind is not CHANGE
    assert intent_of(f"what means `{quoted} write`? update it", EARLIER).kind is CHANGE


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "unit",
    some(
        ["a ", "`", "``x", "'a ", '"', "“", "‘a’b", "(", "a/", "a.", "x_y_", "::1", "in the ", " ", "```\n", "please "],
        5,
    ),
)
def test_a_message_of_any_length_is_read_as_well(unit: str) -> None:
    long = unit * (rounds(100_000, 1_000_000) // len(unit))
    assert intent_of(f"read {long}\nupdate", EARLIER).kind in (CHANGE, LOOK)
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
