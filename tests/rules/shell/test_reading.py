"""How commands are taken apart."""

from __future__ import annotations

import shlex
import subprocess
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.vocabulary import Verdict
from holdfast.rules.shell import parsing
from holdfast.rules.shell.parts import Part, read
from holdfast.rules.shell.plain import read_plain

from .judging import judged

ANY_TEXT = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from([*"$(){}[]<>|&;'\"\\`#!~*?=-\n\t \r", "ls", "rm", "$(", "<<E\n", "E\n", "if ", "fi", "${"]),
        max_size=30,
    ).map("".join),
)
WORDS = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable() and not text.startswith("~"))
PATIENT = settings(deadline=None)
NAMES = st.text(ascii_lowercase, max_size=8).map(lambda text: f"x{text}")
"""Names that mean nothing to a shell."""


def commands(text: str) -> list[tuple[str | None, ...]]:
    return [part.words for part in read(text).parts if part.kind == "command"]


@pytest.mark.spec("A11")
@PATIENT
@given(ANY_TEXT)
def test_no_text_breaks_the_reading_and_none_is_approved_without_being_plain(text: str) -> None:
    said = judged(text)
    assert said.verdict is not Verdict.APPROVE or read_plain(text) is not None


@pytest.mark.spec("A11")
@PATIENT
@given(NAMES, st.lists(WORDS, max_size=5))
def test_quoted_words_are_one_command_with_exactly_these_words(name: str, words: list[str]) -> None:
    text = shlex.join([name, *words])
    assert commands(text) == [(name, *words)]
    assert len(read(text).parts) == 1


@pytest.mark.spec("A11")
@PATIENT
@given(st.lists(st.tuples(NAMES, st.lists(WORDS, max_size=3)), min_size=2, max_size=5), st.data())
def test_joined_commands_are_the_parts_of_each(
    given_commands: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    texts = [shlex.join([name, *words]) for name, words in given_commands]
    whole = texts[0]
    for text in texts[1:]:
        whole += data.draw(st.sampled_from(["; ", " && ", " || ", " | ", "\n", ";", "|"])) + text
    assert commands(whole) == [(name, *words) for name, words in given_commands]


@pytest.mark.spec("A11")
@PATIENT
@given(ANY_TEXT)
def test_the_plain_reading_never_sees_fewer_commands_than_the_tree(text: str) -> None:
    plain = read_plain(text)
    reading = read(text)
    if plain is not None and not reading.unreadable and not any(part.obstacle for part in reading.parts):
        seen = [part for part in reading.parts if not part.derived and part.kind == "command"]
        assert len(plain.commands) == len(seen)


@pytest.mark.spec("A11")
@settings(deadline=None, max_examples=250)
@given(
    st.lists(
        st.sampled_from(
            [
                *"ab.-=~^%@:,/\u00e9'\"\\#!{}$* \t\n",
                *(" x ", "; x ", "\nx ", " && x ", "'a b'", "'$a;'", "\\(", "\\ ", '"c d"', "''", " #'\nx "),
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_plain_words_are_what_bash_passes_on(rest: str) -> None:
    text = f"x {rest}"
    plain = read_plain(text)
    if plain is None or plain.redirections or any(words[0] != "x" for words in plain.commands):
        return
    script = "x() { printf '<'; printf '%s\\0' \"$@\"; }\n" + text
    ran = subprocess.run(["bash", "--norc", "-c", script], env={"LANG": "C.UTF-8"}, capture_output=True, check=True)
    passed = [call.split(b"\0")[:-1] for call in ran.stdout.split(b"<")[1:]]
    wanted = [[word.encode() for word in words[1:]] or [b""] for words in plain.commands]
    assert passed == wanted


@pytest.mark.spec("A11")
def test_what_is_plain_is_a_script_for_bash_too(plain_texts: list[str]) -> None:
    for text in plain_texts:
        assert read_plain(text) is not None, text
        checked = subprocess.run(
            ["bash", "--norc", "-n"], input=text, text=True, env={}, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, ""), text


@pytest.fixture
def plain_texts() -> list[str]:
    return [
        "ls", "a && b || c | d; e\nf # g", 'a \'b c\' "d" \\( 2>&1 >/dev/null', "a |\n b", "a &&\n\n b", "a >f x",
        "a\n\n\nb;\nc",
    ]


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git >/dev/null push", [("git", "push")]),
        ("true | git >/dev/null push", [("true",), ("git", "push")]),
        ("git <<E push\nx\nE", [("git", "push")]),
        ("git 2>&1 push", [("git", "push")]),
        ("> f rm x", [("rm", "x")]),
        ("ls \\\n rm", [("ls", "rm")]),
        ("echo a\\ b 'c d'\"e\"", [("echo", "a b", "c de")]),
        ("echo $'a\\tb\\x41\\101'", [("echo", "a\tbAA")]),
        ("echo {} a{b}", [("echo", "{}", "a{b}")]),
        ("echo {a,b} {1..3} *.py ~ $x", [("echo", None, None, None, None, None)]),
        ('echo "a $b"', [("echo", None)]),
        ("export A=1 B=$x", [("export", "A=1", None)]),
    ],
)
def test_words_are_what_the_shell_would_pass_on(text: str, words: list[tuple[str | None, ...]]) -> None:
    assert commands(text) == words


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("A=1", ["assignment"]),
        ("A=1 ls", ["command", "assignment"]),
        ("> f", ["redirection"]),
        ("ls > f 2>&1", ["command", "redirection", "redirection"]),
        ("ls &", ["command", "opaque"]),
        ("( ls )", ["opaque", "command"]),
        ("cat <<E\nx\nE", ["command", "redirection"]),
    ],
)
def test_every_assignment_and_redirection_is_a_part(text: str, kinds: list[str]) -> None:
    assert [part.kind for part in read(text).parts] == kinds


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "ls &", "ls <<E\nE", "$x", "a=1", "a=1 b", "(a)", "{ a; }", "! a", "a 'b", 'a "$b"', "a;;b", "a |& b", "if a",
        "a >(b)", "a\\\nb", "a `b`", "a *", "a ?", "a {b,c}", "a ~", "a b=~/c", "a [b]", "[ a ]", "/bin/a", "'a'",
        "a \xa0b", "a >", "> a", "a #b\\\n&c", "time\\ a", "a\x00b", "a !b",
    ],
)  # fmt: skip
def test_only_what_everyone_reads_alike_is_plain(text: str) -> None:
    assert read_plain(text) is None


@pytest.mark.spec("A11")
def test_a_lone_surrogate_is_unreadable_not_a_crash() -> None:
    assert read("ls \ud800").parts == (
        Part(kind="opaque", text="ls \ud800", obstacle="it holds a lone surrogate", hides=True),
    )


@pytest.mark.spec("A11")
@given(st.text(max_size=40))
def test_the_grammar_is_shown_nothing_but_ascii(text: str) -> None:
    shown: list[bytes] = []
    real = parsing.native_parser()

    class Watching:
        def parse(self, source: bytes) -> object:
            shown.append(source)
            return real.parse(source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "native_parser", Watching)
        read(f"echo {{{text} '\u00e9'")
    assert shown and all(source.isascii() for source in shown)


@pytest.mark.spec("A11")
def test_words_that_are_not_ascii_keep_their_letters() -> None:
    assert commands("echo h\u00e9llo \U0001f600") == [("echo", "h\u00e9llo", "\U0001f600")]
    assert read("cat <<\u00e9\nls\n\u00e8\nrm x\n\u00e9").unreadable
