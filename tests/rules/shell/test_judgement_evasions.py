"""Evasions of asking and denying rules: other spellings of options, and programs started by other programs."""

from __future__ import annotations

import pytest

from holdfast.contract.enums import Verdict

from .command_judges import judge_with, rule, verdict

DENYING = judge_with(rule("rm", "deny"), readers=True)
NO, ASK, DENY = None, Verdict.ASK, Verdict.DENY


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("words", "text", "outcome"),
    [
        *(("rm -rf *", f"rm {given} x", DENY) for given in (
            "-rf", "-fr", "-r -f", "-Rf", "-rfv", "--recursive --force", "-r --force", "--rec -f", "-v -R --forc",
        )),
        ("rm -rf *", "rm x -f -r", DENY),
        ("rm -rf *", "rm -r $x", ASK),
        ("rm -rf *", "rm $x -rf", DENY),
        ("rm -rf *", "rm -r x", NO),
        ("rm -rf *", "rm -i -v x", NO),
        ("rm --recursive", "rm -R x", DENY),
        ("rm -r", "rm --recursive x", DENY),
        ("rm -r", "rm --interactive x", NO),
        ("git push --force", "git push -f", DENY),
        ("git push --force", "git push origin -uf", DENY),
        ("git push --force", "git push --forc", DENY),
        ("git push --force", "git push origin +main", DENY),
        ("git push --force", "git push --force-with-lease", NO),
        ("git push --force", "git push -u origin main", NO),
        ("git push --force-with-lease", "git push --force", NO),
        ("git push --force-with-lease", "git push --force-w", DENY),
        ("git push --delete", "git push origin :main", DENY),
        ("git commit --allow-empty", "git commit --all", NO),
        ("git commit --no-verify", "git commit -nm x", DENY),
        ("git reset --hard", "git reset --har HEAD", DENY),
        ("mytool --force", "mytool --forc", ASK),
        ("mytool --force", "mytool -xf", ASK),
        ("mytool --force", "mytool --file", NO),
        ("mytool -xz", "mytool -zvx", DENY),
        ("mytool -xz", "mytool -x --zip", ASK),
        ("mytool -xz", "mytool -x", NO),
        ("mytool --mode=fast", "mytool --mode fast", DENY),
        ("mytool --mode=fast", "mytool --mod=fast", ASK),
        ("mytool --mode=fast", "mytool --mode=slow", NO),
        ("mytool --mode=", "mytool --mode=slow", DENY),
        ("mytool -u root", "mytool -uroot", DENY),
        ("mytool --user root", "mytool --user=root", DENY),
        ("find -delete", "find . -name x -type d -empty -delete", DENY),
        ("find -delete", "find . -type d -empty -ls", NO),
        ("terraform -destroy", "terraform apply --destroy", DENY),
    ],
)  # fmt: skip
def test_an_option_of_a_rule_matches_in_any_spelling(words: str, text: str, outcome: Verdict | None) -> None:
    assert verdict(text, judge_with(rule(words, "deny"))) is outcome


STARTED = [
    "bash -o pipefail -c 'rm x'", "bash -O extglob -c 'rm x'", "bash --rcfile y -c 'rm x'", "bash -c -e 'rm x'",
    "bash -eo pipefail -c 'rm x'", "bash -ceo pipefail 'rm x'", "bash --init-file=y -c 'rm x'", "sh +o x -c 'rm x'",
    "bash --norc -c 'rm x'", "mksh -c 'rm x'", "bash --odd y -c 'rm x'", "bash -c --odd y 'rm x'",
    "bash -c --odd 'rm x' y", "fish -C 'rm x'", "fish --command='rm x'",
    "flock f -c 'rm x'", "flock f rm x", "flock -w 5 f --command 'rm x'", "script -qc 'rm x' f", "script -c'rm x' f",
    "script --command='rm x' f", "script --comm 'rm x' f", "script f -- rm x", "runuser -u x -- rm x",
    "runuser -u x rm x", "runuser x -c 'rm x'", "su x -c 'rm x'", "su --session-command='rm x'", "sg g -c 'rm x'",
    "coproc N { rm x; }", "coproc { rm x; }", "time { rm x; }", "time ! rm x", 'echo "${x:=`rm x`}"',
    "echo ${x#`rm x`}", "echo ${x/`rm x`/y}", "cat <<E\n${x:=`rm x`}\nE", "sh <<< 'rm x'", "bash -s <<< 'rm x'",
    "sh <<E\nrm x\nE", "cat <<'E' | sh\nrm x\nE", "env sh <<< 'rm x'", ". /dev/stdin <<< 'rm x'",
    "bash /dev/stdin <<< 'rm x'", "alias q=rm; q x", "alias a=b q='rm x'", "BASH_ALIASES[q]=rm; q x",
    "hash -p /bin/rm q; q x", "hash -p/bin/rm q", "mapfile -C 'rm x' -c 1 a", "readarray -c1 -C'rm x' a",
    "compgen -C 'rm x'", "compgen -W '$(rm x)'", "setarch x86_64 rm x", "setarch -R rm x", "linux64 rm x",
    "ssh-agent rm x", "ssh-agent -t 5 rm x", "bwrap --bind / / rm x", "hyperfine 'rm x'", "entr -s 'rm x'",
    "nodemon --exec='rm x'", "docker run --rm i rm x", "poetry run rm x", "uv run -- rm x", "npx -c 'rm x'",
    "git bisect run rm x", "git -C y bisect run rm x", "git submodule foreach --recursive 'rm x'",
    "git rebase -x 'rm x' HEAD~1", "git rebase --exec='rm x' y", "git -c alias.q='!rm x' q", "git clone 'ext::rm x'",
    "git -c core.pager='rm x' log", "git filter-branch --tree-filter 'rm x'", "git fetch --upload-pack='rm x' y",
    "GIT_EXTERNAL_DIFF='rm x' git diff", "export GIT_PAGER='rm x'", "env PAGER='rm x' man y", "x='a[$(rm x)]'",
    "tar xf y --to-command='rm x'", "tar cf y --checkpoint-action=exec='rm x' .", "rsync -e 'rm x' a b:",
    "split --filter='rm x' y", "vim -c '!rm x'", "env -vS 'rm x'", "env --split='rm x'", "parallel ::: 'rm x'",
    "parallel rm ::: x", "timeout 5 nice setarch -R rm x", "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
]  # fmt: skip


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("text", STARTED)
def test_a_denied_program_is_found_whatever_starts_it(text: str) -> None:
    assert verdict(text, DENYING) is DENY
    assert verdict(text) is not Verdict.APPROVE


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("git push", "git -c alias.q=push q"),
        ("git push", "git-push origin"),
        ("git push", "/usr/lib/git-core/git-push origin"),
        ("git push --force", "git-push -f"),
    ],
)
def test_a_denied_subcommand_is_found_under_its_aliases(words: str, text: str) -> None:
    assert verdict(text, judge_with(rule(words, "deny"))) is DENY


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm x' | sh", "sh", "bash -s", "bash --odd y", "echo 'rm x' | xargs -I% sh -c %", "xargs -i% sh -c %",
        "ls | parallel", "git --config-env=alias.q=X q", "alias $x", ". <(ls)", "at now", "alias q=ls; bash -s y",
        "docker run " + "y " * 80,
    ],
)  # fmt: skip
def test_with_a_denying_rule_programs_that_run_unknown_commands_need_approval(text: str) -> None:
    assert verdict(text, DENYING) is ASK
    assert verdict(text) is NO


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "docker rm x", "npm rm x", "bash --version", "bash run.sh", "bash -o pipefail run.sh rm", "git rm x",
        "bash -c 'echo hi' rm", "git bisect start", "git clean -x", "x='rm'", "alias", "cat <<E\nrm x\nE",
        "bash x.sh; cat <<E\nrm x\nE", "echo '`rm x`'", "git commit -m 'ran `rm x`'", "tar xf rm.tar", ". ./env",
        "bash --rcfile rm -c ls",
    ],
)  # fmt: skip
def test_a_denied_name_that_is_not_started_denies_nothing(text: str) -> None:
    assert verdict(text, judge_with(rule("rm", "deny"))) is NO


@pytest.mark.spec("A11")
@pytest.mark.parametrize("target", ["\u0663", "\u00b2", "\uff11", "1\u0663", "\u0967", "1x", "1234"])
def test_only_ascii_digits_name_a_descriptor(target: str) -> None:
    assert verdict(f"echo evil >&{target}") is NO
    assert verdict(f"echo evil <&{target}") is NO
    assert verdict("echo fine >&2") is Verdict.APPROVE


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", ["head -\u0663 a", "sed -n '\u0663p' a", "timeout \u0663 ls", "nice -n \u0663 ls"])
def test_only_ascii_digits_are_numbers(text: str) -> None:
    assert verdict(text) is NO
    assert verdict(text.replace("\u0663", "3")) is Verdict.APPROVE
