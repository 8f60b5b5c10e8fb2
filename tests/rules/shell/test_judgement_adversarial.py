"""Adversarial commands. `git log`, `echo`, `cat`, `find`, `sed` and `ls` are allowed throughout."""

from __future__ import annotations

import pytest

from holdfast.contract.enums import Verdict

from .command_judges import PRESET, judge_with, judged, rule, verdict

USER = judge_with(
    rule("git log *", options=("--oneline",)),
    rule("echo *"),
    rule("cat *"),
    rule("find *"),
    rule("ls *"),
    readers=False,
)
DENYING = judge_with(rule("rm", "deny"), rule("evil", "deny"), readers=True)

CASES = {
    "1": [
        "git log; rm -rf x", "git log && rm x", "git log || rm x", "git log | rm x", "git log & rm x", "git log&rm x",
    ],
    "2": [
        "git log\nrm x", "git log\r\nrm x", "git log\u2028rm x", "git log\x0brm x", "git log\x0crm x",
        "git log\x85rm x",
    ],
    "3": [
        "echo $(rm x)", "echo `rm x`", "cat <(rm x)", "echo >(rm x)", "echo $((`rm x`))", 'echo "${x:=$(rm y)}"',
        "cat <<E\n$(rm x)\nE", 'echo "$(rm x)"', "echo ${a[$(rm x)]}", "echo <<<$(rm x)", "echo $(echo $(rm x))",
    ],
    "6": [
        "GIT_EXTERNAL_DIFF=x rm y", "BASH_ENV=x rm y", "LD_PRELOAD=x rm y", "PAGER=x rm y", "PYTHONPATH=x rm y",
        "A=1 B=2 rm y",
    ],
    "7": ["r\\m x", '"r"m x', "$'\\x72m' x", "'rm' x", "/bin/rm x", "./rm x", "r''m x", "$'\\162m' x"],
    "8": ["find . -exec rm {} \\;", "find . -execdir rm {} +", "find . -ok rm {} \\;", "find . -okdir rm x \\;"],
    "12": [
        "xargs rm", "ls | xargs -n1 rm", "env -S 'rm x'", "env -Srm", "time rm", "nice -n 5 rm x", "timeout 5 rm",
        "command rm", "builtin eval rm", "exec rm", "nohup rm", "sudo rm", "sudo -u bob rm x", "busybox rm",
        "setsid rm", "stdbuf -oL rm x", "env A=1 rm", "doas rm", "eval 'rm x'", "trap 'rm x' EXIT",
        "sudo -Z what rm x", "env nice timeout 5 rm x", "git >/dev/null status; rm", "true | rm >/dev/null x",
        "ssh host rm x", "su -c 'rm x'", "watch rm x",
    ],
    "13": [
        "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "[[ 'a[$(rm x)]' -eq 1 ]]", "printf -v 'a[$(rm x)]' y",
        "let 'a[$(rm x)]=1'", "(( a[$(rm x)] ))", "declare 'a[$(rm x)]=1'", "read 'a[`rm x`]'",
    ],
    "14": ["true && " * 51 + "rm x", "; ".join(["true"] * 900) + "; rm x"],
    "15": [
        "bash -c 'rm x'", "sh -c 'ls; rm x'", "bash -lc 'rm x'", 'bash -c \'bash -c "rm x"\'',
        "bash -c 'echo $(rm x)'",
    ],
    "control": [
        "if ls; then rm x; fi", "for i in a; do rm $i; done", "while ls; do rm x; done", "case x in x) rm y;; esac",
        "f() { rm x; }; f", "{ rm x; }", "(rm x)", "! rm x", "ls && { rm x; }", "coproc rm x",
    ],
}  # fmt: skip
HIDDEN = [pytest.param(text, id=f"A{case}-{text[:24]!a}") for case, texts in CASES.items() for text in texts]


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("text", HIDDEN)
def test_a_denied_command_is_found_wherever_it_is_hidden(text: str) -> None:
    assert verdict(text, DENYING) in (Verdict.DENY, Verdict.ASK)
    if not any(char in text for char in "\r\x0b\x0c\x85\u2028"):
        assert verdict(text, DENYING) is Verdict.DENY


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", HIDDEN)
@pytest.mark.parametrize("judge", [PRESET, USER], ids=["preset", "rules"])
def test_a_text_that_hides_a_command_is_never_approved(text: str, judge: object) -> None:
    assert verdict(text, PRESET if judge is PRESET else USER) is not Verdict.APPROVE


ASKED = {
    "4": [
        "> ~/.bashrc", ">>f", ": > f", "exec 3>f", "echo a > f", "echo a >> f", "ls >| f", "ls &> f", "ls 2> f",
        "ls <> f", "ls > /dev/null/../f", "ls >& f", "cat < ../f", "cat < /etc/passwd",
    ],
    "5": [
        "export PATH=/tmp/evil", "declare -x GIT_PAGER=x", "alias ls=rm", "set -o noclobber", "trap 'ls' EXIT",
        "PROMPT_COMMAND=x", "typeset -x A=b", "readonly A=b", "unset PATH", "shopt -s extdebug", "hash -p ./evil ls",
        "local a=b", "A=b",
    ],
    "6": [
        "GIT_EXTERNAL_DIFF=x git diff", "GIT_SSH_COMMAND=x git log", "PAGER=x git log", "NODE_OPTIONS=x ls", "X=1 ls",
    ],
    "7": [
        "${X:-ls} x", "$(printf ls) x", "~/bin/git log", "/tmp/evil/git log", "l\\s", '"l"s', "'ls'", "{ls,x}", "l?",
        "$LS",
    ],
    "8": [
        "find . -delete", "find . -fprintf f x", "find . -fls f", "find . -fprint f", "find . -fprint0 f",
        "find -L . -name x",
    ],
    "9": [
        "sed -i s/a/b/ f", "sed 'w f' g", "sed '1e id' f", "sed 's/x/id/e' f", "sed 'r x' f", "sed -n '1p;w f' g",
        "sed -n 1p -i f", "sed -f x f", "sed -Ei s/a/b/ f", "sed $x f",
    ],
    "10": [
        "git -c core.pager=x log", "git --config-env=a=b log", "git -C /other log", "git --git-dir=/x log",
        "git --exec-path=/x log", "git -c alias.x='!evil' x", "git log --output=f", "git log --output f",
        "git fetch --upload-pack=x", "git clone ext::evil x", "git grep -O./evil x",
        "git grep --open-files-in-pager=x y", "git diff --no-index a ../b", "git diff --ext-diff", "git push",
        "git config a b", "git branch new", "git show --textconv", "git diff /etc/passwd a", "git",
    ],
    "12": [
        'awk \'BEGIN{system("id")}\'', "tar cf x --checkpoint-action=exec=id .", "sort -o f g", "sort --output=f g",
        "sort -uof g", "sort --compress-program=x f", "uniq in out", "tee f", "rg --pre x y", "rg --pre=x y",
        "ssh -o ProxyCommand=x h", "man -P x y", "less f", "env", "env A=1 ls", "xargs ls", "sudo ls", "nohup ls",
        "exec ls", "busybox ls",
    ],
    "13": [
        "[[ $v -eq 1 ]]", "[ -f ../x ]", "test -f /etc/passwd", "[ -f $x ]", "test -v x", "let x=1", "(( 1 ))",
        "printf -v x y", "printf $x y", "[[ -v x ]]",
    ],
    "15": [
        'bash -c "$(base64 -d<<<bHM=)"', "bash -c ls", "python3 -c 'print(1)'", "node -e 1", "perl -e 1",
        "bash <<E\nls\nE", "python3 <<'E'\n1\nE", "bash script.sh", ". ./x", "source x",
    ],
    "16": ["echo 'x", 'echo "x', "ls (", "ls )", "if ls", "ls &&", "ls |", "; ls", "echo `ls", "echo $(ls", "ls <"],
    "paths": [
        "cat ~/.ssh/id_rsa", "cat /etc/shadow", "cat ../x", "cat src/../../x", "ls ../*.py", "cat $HOME/x",
        "cd .. && ls", "cd && ls", "cd src && cat ../../x", "cd - && ls", "ls /proc/self", "cat {a,b}",
        "head -n1 /etc/passwd", "grep -r x /", "grep -f /etc/x y", "wc --files0-from=x", "cat x=~/y", "ls ~root",
        "command cd src", "cd ../src", "cat a b ../c",
    ],
    "values": [
        "for f in p 'w x'; do sed -n \"$f\" a; done", "echo ${CDPATH:=..}; cd src && cat x",
        "for CDPATH in ..; do ls; done",
        "{ echo /x; find . -type f; } | xargs cat", "ls | xargs -0 sort", "x='-v a[$(y)]'; [ $x ]", '[ "$x" "$y" ]',
        "[ $x ]",
        'git grep "$x" y', "git log $x", "jq -n env", "jq -n '$ENV'", "sed -n [a-z]* x", "cat .*", "cat [!a]*",
        "PATH=x", "IFS=x",
        "for f in $x; do cat \"$f\"; done", "grep $x y", "awk -v x=$y 1 z", "find . | sed s/a/b/ | xargs cat",
        "git ls-files | xargs cat",
    ],
    "budget of trust": [
        "ls -L", "ls --hyperlink", "grep -R x .", "rg -L x", "rg --follow x", "rg -z x", "file -C", "date -s 0",
        "date 01010101", "du -L", "tail -f x", "sort -T x y", "ls &", "env -i ls", "timeout -s KILL 5 ls",
        "nice -20 ls", "time -o f ls",
    ],
}  # fmt: skip


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"A{case}-{text[:24]!a}") for case, texts in ASKED.items() for text in texts]
)
def test_a_command_that_does_more_than_read_needs_approval(text: str) -> None:
    assert verdict(text) is None
    assert judged(text).reason


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", [text for case in ("8", "10", "16") for text in ASKED[case]])
def test_a_rule_for_a_program_does_not_cover_its_dangerous_options(text: str) -> None:
    assert verdict(text, USER) is None


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#" * 70_000, id="long"),
        pytest.param("ls; " * 1100 + "ls", id="parts"),
        pytest.param("echo " + "$(echo " * 60 + "x" + ")" * 60, id="deep"),
        pytest.param("(" * 10_000, id="parentheses"),
        pytest.param("cat <<E " * 5000, id="here-documents"),
        pytest.param("echo " + "a " * 20_000, id="words"),
    ],
)
def test_a_command_that_is_too_complex_is_denied(text: str) -> None:
    for judge in (PRESET, USER, DENYING):
        assert verdict(text, judge) is Verdict.DENY
        assert judged(text, judge).reason.startswith("It is too complex to analyze: it ")


@pytest.mark.spec("A11")
def test_with_a_denying_rule_wrappers_nested_beyond_the_limit_need_approval() -> None:
    assert verdict("env " * 8 + "rm x", DENYING) is Verdict.DENY
    assert verdict("env " * 9 + "rm x", DENYING) is Verdict.ASK
    assert verdict("env " * 9 + "ls", PRESET) is None


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "$X y",
        "$(printf rm) x",
        "${X:-rm} x",
        "git log\rls",
        "echo 'x",
        "bash $SCRIPT",
        "r? x",
        "env $X ls",
    ],
)
def test_with_a_denying_rule_unknown_commands_need_approval(text: str) -> None:
    assert verdict(text, DENYING) is Verdict.ASK
    assert verdict(text, PRESET) is None


@pytest.mark.spec("A11")
def test_if_the_parsers_disagree_nothing_is_approved_and_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert verdict("ls -la2>/dev/null") is None
    assert "Two parsers disagree about the command 'ls -la2>/dev/null'" in caplog.text


@pytest.mark.spec("A11", "A10")
def test_the_offending_part_is_named() -> None:
    outcome = judged("git log; rm -rf x", DENYING)
    assert outcome.reason == "'rm -rf x': the rule 'rm' denies it."
    assert [(part.text, part.verdict) for part in outcome.parts] == [
        ("git log", Verdict.APPROVE),
        ("rm -rf x", Verdict.DENY),
    ]
    assert judged("echo $(rm x)", DENYING).reason == "'rm x' in $(…): the rule 'rm' denies it."
