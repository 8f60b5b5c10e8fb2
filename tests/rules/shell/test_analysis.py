"""Command analysis, compared with what real shells do with the same text."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.enums import Verdict
from holdfast.rules.shell import syntax_tree
from holdfast.rules.shell.analysis import CommandAnalysis, analyze
from holdfast.rules.shell.lexer import lex
from holdfast.rules.shell.parts import CommandPart
from holdfast.rules.shell.programs import dialect_of
from holdfast.rules.shell.word_reader import UnsupportedSyntax

from .command_judges import judged

ANY_TEXT = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            [
                *"$(){}[]<>|&;'\"\\`#!~*?=-\n\t \r",
                "ls",
                "rm",
                "$(",
                "<<E\n",
                "E\n",
                "if ",
                "fi",
                "${",
                "coproc ",
                "env ",
                "bash -c ",
            ]
        ),
        max_size=30,
    ).map("".join),
)
_PRINTABLE = st.just(" ") | st.characters(exclude_categories=("C", "Z"))
WORDS = st.text(_PRINTABLE, min_size=1, max_size=12).filter(lambda text: not text.startswith("~"))
PATIENT = settings(deadline=None)
NAMES = st.text(ascii_lowercase, max_size=8).map(lambda text: f"x{text}x")
"""Names without a meaning to a shell; `xargs`, which runs another command, is none of them."""
SHELLS = pytest.mark.parametrize("shell", ["bash", "dash"])


def commands(text: str) -> list[tuple[str | None, ...]]:
    return [part.words for part in analyze(text).parts if part.kind == "command"]


def is_certain(analysis: CommandAnalysis) -> bool:
    """Whether every part and every word of a text is known."""
    known = all(part.kind == "command" and None not in part.words for part in analysis.parts)
    return known and not analysis.unreadable and not analysis.differs


@pytest.mark.spec("A11")
@PATIENT
@given(ANY_TEXT)
def test_any_text_can_be_analyzed_and_uncertain_text_is_never_approved(text: str) -> None:
    for shell in ("bash", "posix", "other"):
        analysis = analyze(text, shell)
        assert analysis.parts or not text.strip() or text.lstrip().startswith("#") or analysis.too_complex
    outcome = judged(text)
    assert outcome.verdict is not Verdict.APPROVE or not analyze(text).unreadable


@pytest.mark.spec("A11")
@PATIENT
@given(NAMES, st.lists(WORDS, max_size=5))
def test_quoted_words_are_parsed_as_one_command(name: str, words: list[str]) -> None:
    text = shlex.join([name, *words])
    assert commands(text) == [(name, *words)]
    assert len(analyze(text).parts) == 1


@pytest.mark.spec("A11")
@PATIENT
@given(st.lists(st.tuples(NAMES, st.lists(WORDS, max_size=3)), min_size=2, max_size=5), st.data())
def test_joined_commands_have_the_parts_of_each_command(
    given_commands: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    texts = [shlex.join([name, *words]) for name, words in given_commands]
    whole = texts[0]
    for text in texts[1:]:
        whole += data.draw(st.sampled_from(["; ", " && ", " || ", " | ", "\n", ";", "|"])) + text
    assert commands(whole) == [(name, *words) for name, words in given_commands]


@pytest.mark.spec("A11")
@SHELLS
@settings(deadline=None, max_examples=250)
@given(
    rest=st.lists(
        st.sampled_from(
            [
                *"ab.-=~^%@:,/\u00e9'\"\\#!{}$*()<>& \t\n",
                *(" x ", "; x ", "\nx ", " && x ", "'a b'", "'$a;'", "\\(", "\\ ", '"c d"', "''", " #'\nx ", '"\\$a"'),
                *("$'a\\tb'", "$'\\x41'", "\\\n", " \\\n", '"\\\n"', "$'\\0'", "$'\\x{41}'", "&>", "{a,b}", "[a]"),
            ]
        ),
        max_size=14,
    ).map("".join),
)
def test_known_words_are_what_the_shell_passes_on(shell: str, rest: str) -> None:
    text = f"x {rest}"
    analysis = analyze(text, dialect_of(shell))
    if not is_certain(analysis) or any(part.words[0] != "x" or part.derived for part in analysis.parts):
        return
    script = "x() { printf '%s\\0' $# \"$@\"; }\n" + text
    ran = subprocess.run([shell, "-c", script], env={"LANG": "C.UTF-8"}, capture_output=True, check=True)
    fields, passed = iter(ran.stdout.split(b"\0")[:-1]), list[list[bytes]]()
    for count in fields:
        passed.append(list(islice(fields, int(count))))
    wanted = [[(word or "").encode() for word in part.words[1:]] for part in analysis.parts]
    assert passed == wanted


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A script nested in another in every way a shell offers."""
    pairs = st.tuples(inner, inner)
    forms = (
        "$(%s)", "`%s`", '"$(%s)"', "( %s )", "{ %s; }", "if %s; then %s; fi", "while ! %s; do %s; done", "%s && %s",
        "%s | %s", "%s; %s", "%s\n%s", "! %s", "echo $(%s) `%s`", 'x=$(%s) %s', "cat <<E\n$(%s)\nE\n%s",
        "for i in 1; do %s; done",
        "case x in (x) %s;; *) %s;; esac", "f() { %s; }; f", "echo ${y:-$(%s)}", "%s # note\n%s", "eval '%s'",
        "echo \"a`%s`b\"",
        "cat <<'E'\n%s\nE\n%s", "%s >/dev/null 2>&1", "echo $((1 + 2)); %s", "x=1; %s", "sh -c '%s'", "%s \\\n x",
        "cat <<-E\n\t$(%s)\n\tE\n%s",
        "until %s; do break; done", "%s || %s", "%s & %s", "echo 'a;b' \"c;d\"; %s", "[ -n \"$(%s)\" ]; %s", "A=1 %s",
        "command %s",
        "echo `echo $(%s)`", "%s;", "{ %s; } | { %s; }", "trap '%s' EXIT", "exec 3>&1; %s", "set -- a b; %s",
        "echo \\`%s\\`", "%s 2>/dev/null | cat",
    )  # fmt: skip
    return st.sampled_from(forms).flatmap(
        lambda form: inner.map(lambda one: form % one) if form.count("%s") == 1 else pairs.map(lambda two: form % two)
    )


PROBES = st.sampled_from(["pa", "pb x", "pc 'y z'", 'pd "$x"', "\\pa", "'pb'", 'p"c"', "pd$y", "pa\\\n x", "$'pb'"])
SCRIPTS = st.recursive(PROBES, nested, max_leaves=6)


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that record in a file that they ran."""
    folder = tmp_path_factory.mktemp("probes")
    (folder / "bin").mkdir()
    for name in ("pa", "pb", "pc", "pd"):
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\necho {name} >> {folder}/ran\n")
        program.chmod(0o755)
    return folder


def ran_by(shell: str, text: str, probes: Path) -> set[str]:
    log = probes / "ran"
    log.write_text("")
    env = {"PATH": f"{probes}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    words = ["timeout", "-s", "KILL", "5", shell, "-c", text]
    subprocess.run(words, env=env, cwd=probes, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    return set(log.read_text().split())


def programs_in(parts: Sequence[CommandPart]) -> set[str | None]:
    return {
        None if part.may_run_anything else part.words[0]
        for part in parts
        if part.may_run_anything or (part.kind == "command" and part.words)
    }


@pytest.mark.spec("A11", "A18")
@SHELLS
@settings(deadline=None, max_examples=120)
@given(text=SCRIPTS)
def test_every_program_a_shell_starts_is_found_or_something_is_unknown(shell: str, probes: Path, text: str) -> None:
    seen = programs_in(analyze(text, dialect_of(shell)).parts)
    assert None in seen or ran_by(shell, text, probes) <= seen


@pytest.mark.spec("A11")
@SHELLS
@settings(deadline=None, max_examples=200)
@given(
    text=SCRIPTS,
    at=st.floats(0, 1),
    odd=st.sampled_from(
        [*"$`'\"\\;&|<>(){}[]*?~!#\n \t=", "$(", "`", "<<E", "\\\n", "&>", ">&", "$'", "((", "))", "|&", "<(", "{a,"]
    ),
)
def test_every_program_is_found_or_something_is_unknown_with_special_characters_spliced_in(
    shell: str, probes: Path, text: str, at: float, odd: str
) -> None:
    context = int(at * len(text))
    changed = text[:context] + odd + text[context:]
    seen = programs_in(analyze(changed, dialect_of(shell)).parts)
    assert None in seen or ran_by(shell, changed, probes) <= seen


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
        ("echo `date` `hostname`", [("echo", None, None), ("date",), ("hostname",)]),
        ("[ -f x ]", [("[", "-f", "x", "]")]),
        ("[[ -f x && $y ]]", [("[[", "-f", "x", None, "]]")]),
    ],
)
def test_words_are_parsed_as_the_shell_would_pass_them_on(text: str, words: list[tuple[str | None, ...]]) -> None:
    assert [part.words for part in lex(text).parts if part.kind == "command"] == words


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
    assert [part.kind for part in analyze(text).parts] == kinds


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "a 'b", "a;;b", "if a", "a\\\nb", "a \xa0b", "a >", "a\x00b", "a `b", "a $(b", "a &&", "| a", "a (b)", "$[1]",
        "a !(b)", "a <<E",
        "a <<E\nx\\\nE\nb\nE", "echo `a \\`b\\``", 'echo "${x:-\'a\'}"', "$((a) b)", "f() a", "a <<E <(b\n)\nE",
        "2<(a)", "case x in a",
    ],
)  # fmt: skip
def test_unsupported_syntax_is_unknown(text: str) -> None:
    with pytest.raises(UnsupportedSyntax):
        lex(text)
    assert analyze(text).unreadable
    assert any(part.may_run_anything for part in analyze(text).parts)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "a &> b", "a &>> b", "a |& b", "((a))", "[[ a ]]", "$'a'", '$"a"', "a <(b)", "a <<< b", "a+=b", "a=(b)",
        "a {b,c}", "function f { a; }",
        "${a:1}", "${a/b}", "${!a}", "a >& b", "select i in a; do b; done", "a[1]=b", "${a^^}", "coproc a",
    ],
)  # fmt: skip
def test_bash_only_syntax_is_unknown_for_other_shells(text: str) -> None:
    lex(text)
    with pytest.raises(UnsupportedSyntax):
        lex(text, bash=False)


@pytest.mark.spec("A11")
def test_a_lone_surrogate_is_reported_as_unreadable() -> None:
    assert analyze("ls \ud800").parts == (
        CommandPart(kind="opaque", text="ls \ud800", obstacle="it contains a lone surrogate", may_run_anything=True),
    )


@pytest.mark.spec("A11")
@given(st.text(max_size=40))
def test_the_tree_sitter_grammar_only_gets_ascii(text: str) -> None:
    shown: list[bytes] = []
    real = syntax_tree.native_parser()

    class Watching:
        def parse(self, source: bytes) -> object:
            shown.append(source)
            return real.parse(source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(syntax_tree, "native_parser", Watching)
        analyze(f"echo {{{text} '\u00e9'")
    assert shown and all(source.isascii() for source in shown)


@pytest.mark.spec("A11")
def test_non_ascii_words_keep_their_letters() -> None:
    assert commands("echo h\u00e9llo \U0001f600") == [("echo", "h\u00e9llo", "\U0001f600")]
    assert analyze("cat <<\u00e9\nls\n\u00e8\nrm x\n\u00e9").unreadable


@pytest.mark.spec("A11")
def test_thousands_of_nested_wrappers_need_approval_and_do_not_raise() -> None:
    outcome = judged("nice " * 3000 + "ls")
    assert outcome.verdict is None
    assert "nested more than 8 levels deep" in outcome.reason
    assert judged("nice " * 7 + "ls").verdict is Verdict.APPROVE
