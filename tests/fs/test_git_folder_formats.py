"""The formats of git's state files: content that git writes matches, other content does not."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.fs.git_folder import matches_git_format

MERGE, APPLY, SEQUENCER, BISECT = "rebase-merge", "rebase-apply", "sequencer", ""
ID = b"0123456789" * 4
AUTHOR = b"GIT_AUTHOR_NAME='O'\\''A'\\!' B'\nGIT_AUTHOR_EMAIL='a@b'\nGIT_AUTHOR_DATE='@1 +0000'\n"
OPTIONS = (
    b"[options]\n\tno-commit = true\n\tedit = false\n\tmainline = 1\n\tstrategy = ort\n\tgpg-sign = \n"
    b"\tstrategy-option = ours\n\tstrategy-option = find-renames=40%\n\tdefault-msg-cleanup = scissors\n"
)


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    ("state", "content"),
    [
        ((MERGE, "git-rebase-todo"), b"pick 1 a\n# exec x\n\nlabel b\nmerge -C 1 a\nupdate-ref c\n"),
        ((MERGE, "git-rebase-todo"), b"pick 1 a\n; exec x\n% help\n"),
        ((MERGE, "git-rebase-todo"), b"pick 1\r\nfixup -C 2\r\nbreak\r\nnoop"),
        ((MERGE, "done"), b""),
        ((MERGE, "strategy"), b"ort\n"),
        ((MERGE, "strategy_opts"), b" --ours --find-renames=40\n"),
        ((MERGE, "strategy_opts"), b" '--patience' '--subtree=a/b'\n"),
        ((MERGE, "strategy_opts"), b'"ours" "no-renames"\n'),
        ((MERGE, "gpg_sign_opt"), b"-SA B <a@example.org>\n"),
        ((MERGE, "author-script"), AUTHOR),
        ((MERGE, "message"), b"exec x\n\xff"),
        ((MERGE, "head-name"), b"refs/heads/a/b\n"),
        ((MERGE, "head-name"), b"detached HEAD\n"),
        ((MERGE, "update-refs"), b"refs/heads/a\n" + ID + b"\n" + ID + b"\n"),
        ((MERGE, "current-fixups"), b"squash " + ID + b"\nfixup -C " + ID),
        ((SEQUENCER, "todo"), b"pick 1\nrevert 2\n"),
        ((SEQUENCER, "opts"), OPTIONS),
        ((SEQUENCER, "opts"), b""),
        ((APPLY, "apply-opt"), b"\n"),
        ((APPLY, "0001"), b"exec x"),
        ((APPLY, "patch"), b"exec x"),
        ((BISECT, "bisect_names"), b"\n"),
        ((BISECT, "bisect_names"), b" 'a b' 'it'\\''s; touch x'\n"),
        ((BISECT, "bisect_terms"), b"bad\ngood\n"),
        ((BISECT, "bisect_log"), b"git bisect start 'x; y'\n# bad: [1] $(x)\ngit bisect bad " + ID + b"\n"),
    ],
)
def test_content_that_git_writes_matches(state: tuple[str, str], content: bytes) -> None:
    assert matches_git_format(state, content)


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    ("state", "content"),
    [
        ((MERGE, "git-rebase-todo"), b"pick 1 a\nexec make\n"),
        ((MERGE, "git-rebase-todo"), b"x touch a\n"),
        ((MERGE, "git-rebase-todo"), b"  \t x touch a\n"),
        ((MERGE, "git-rebase-todo"), b"pick 1\x0bx\nunknown 2\n"),
        ((MERGE, "git-rebase-todo"), b"pick 1\0\nexec x\n"),
        ((MERGE, "git-rebase-todo.backup"), b"exec x"),
        ((MERGE, "done"), b"exec x"),
        ((MERGE, "strategy"), b"evil\n"),
        ((MERGE, "strategy"), b" ort\n"),
        ((MERGE, "strategy"), b"ort\n\n"),
        ((MERGE, "strategy_opts"), b" --upload-pack=x\n"),
        ((MERGE, "strategy_opts"), b" '--ours' '\n"),
        ((MERGE, "gpg_sign_opt"), b"-S/project/key\n"),
        ((MERGE, "gpg_sign_opt"), b"--exec=x\n"),
        ((MERGE, "allow_rerere_autoupdate"), b"--exec=x\n"),
        ((MERGE, "author-script"), AUTHOR + b"touch ran\n"),
        ((MERGE, "author-script"), b"GIT_AUTHOR_NAME=$(touch ran)\nGIT_AUTHOR_EMAIL=''\nGIT_AUTHOR_DATE=''\n"),
        ((MERGE, "author-script"), AUTHOR.replace(b"'a@b'", b"'a'$(x)'b'")),
        ((MERGE, "head-name"), b"refs/../config\n"),
        ((MERGE, "head-name"), b"HEAD\n"),
        ((MERGE, "msgnum"), b"exec"),
        ((MERGE, "unknown"), b""),
        ((MERGE, "config"), b""),
        ((MERGE, "objects"), b""),
        ((SEQUENCER, "todo"), b"exec x\n"),
        ((APPLY, "apply-opt"), b"'--unsafe-paths'"),
        ((APPLY, "author-script"), b"touch ran\n"),
        ((APPLY, "0001.sh"), b""),
        ((BISECT, "bisect_names"), b"; touch ran\n"),
        ((BISECT, "bisect_names"), b" 'a'; touch ran\n"),
        ((BISECT, "bisect_names"), b" $(touch ran)\n"),
        ((BISECT, "bisect_terms"), b"$(x)\ngood\n"),
        ((BISECT, "bisect_start"), b"--orphan\n"),
        ((BISECT, "bisect_log"), b"git bisect start; touch ran\n"),
        ((BISECT, "bisect_log"), b"git bisect bad $(x)\n"),
    ],
)
def test_other_content_does_not_match(state: tuple[str, str], content: bytes) -> None:
    assert not matches_git_format(state, content)


SPELLINGS = [
    b"%bstrategy%b=%bx/evil%b" % parts
    for parts in product((b"", b"\t", b"\r", b" \t"), (b"", b" ", b"\t"), (b"", b" ", b'"'), (b"", b"\n", b";c\n"))
]


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    "before", [b"[options] ", b"[options]\n", b"[options]\r\n", b"[OPTIONS]", OPTIONS, b"\xef\xbb\xbf[options]"]
)
def test_no_spelling_of_a_strategy_that_is_a_program_matches(before: bytes) -> None:
    assert not any(matches_git_format((SEQUENCER, "opts"), before + line) for line in SPELLINGS)


PIECES = [b"[options]\n", b"\tstrategy = ", b"evil", b"ort", b"\n", b"\r", b"\t", b" ", b"\\", b'"', b"#"]


@given(st.lists(st.sampled_from(PIECES)))
def test_matching_options_name_no_other_strategy(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    if matches_git_format((SEQUENCER, "opts"), content):
        assert b"evil" not in content
