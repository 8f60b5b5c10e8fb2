"""No spelling hides a denied program: an attack corpus with variations, and commands that must need no approval."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.rules.shell.parts import Dialect
from holdfast.rules.shell.programs import dialect_of

from .command_judges import judge_with, rule

CORPUS = Path(__file__).with_name("corpora") / "unseen.txt"
LINES = [line.partition(" ") for line in CORPUS.read_text().splitlines() if not line.startswith("#")]
DENYING = judge_with(rule("evil", "deny"))
ASKED = (Verdict.ASK, Verdict.DENY)


def is_silent(text: str, dialect: Dialect = "bash") -> bool:
    return DENYING.judge_restrictions(text, dialect).verdict not in ASKED


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_every_command_of_the_attack_corpus_is_found(shell: str) -> None:
    found: list[str] = [json.loads(text) for shells, _, text in LINES if shell[0] in shells]
    assert len(found) > 400
    assert [text for text in found if is_silent(text, dialect_of(shell))] == []


HARMLESS = [
    "ls -la", "cat a b", "echo $HOME $x", "grep -rn x src", "cd src", "mkdir -p a/b", "cp -r a b", "mv a b", "rm -f a",
    "touch a", "chmod +x a", "sort -u -k2,2n a", "head -5 a", "tail -f a", "wc -l *", "tar czf a.tgz src",
    "tar -xzf a.tgz -C out --strip-components=1", 'tar czf "a-$(date +%F).tgz" src', "tar czf a.tgz *.txt",
    "git add .", "git add $x", "git commit -m 'x y'", 'git commit -m "$x"', "git status -sb", "git log --oneline -5",
    "git diff HEAD~1", "git push -u origin main", "git pull --rebase", "git clone --depth 1 https://example.org/x.git",
    "git checkout -b x", "git rebase -i main", "git -C sub fetch --all --prune", "python script.py",
    "python3 -m pytest -q",
    "python3 x.py $HOME/a", "npm install", "npm i -D x", "npm ci", "npm test", "npm run build", "npm install x@latest",
    "make", "make -j$(nproc) test", "make -C sub CC=gcc", "docker ps -a", "docker run --rm -it alpine ls",
    "docker rm $(docker ps -aq)", "docker logs -f x", "docker compose up -d", "curl -fsSL https://example.org -o a",
    "wget -q https://example.org/x", "find . -name '*.py' -exec grep -l x {} +", "find . -name '*.tmp' -delete",
    'find "$dir" -type f', "find . -type f | xargs grep x", "find . -name '*.c' -print0 | xargs -0 tar czf a.tgz",
    "for f in *.gz; do tar xzf $f; done", "rsync -avz -e ssh a/ host:b/",
    "rsync -a --delete a/ b/", "ssh host ls", "ssh -p 22 -o StrictHostKeyChecking=no u@host uptime", "scp a host:b",
    "scp -P 22 -r a host:b", "pip install -r requirements.txt", "pip install -U x", "apt-get install -y x", "sudo ls",
    "sudo -u x ls", "timeout 5 ls", "timeout -k 5 10 ls", "nice -n 5 ls", "env A=1 ls", "xargs -n1 -P4 echo", "wait",
    "watch -n 5 ls", "nohup ls", "time make", "strace -f -e open ls", "NODE_ENV=test npm test", "CI=1 make test",
    "PYTHONPATH=src python3 x.py", "LC_ALL=C sort a", "export A=1; ls", "x=$(ls); echo $x", "read x; echo $x",
    "while read -r l; do echo \"$l\"; done < a", "printf '%s\\n' \"$x\"", "chmod +x a.sh && ./a.sh", "bash a.sh",
    "mkdir b && cd b && ../configure && make", "git pull && ./deploy.sh", "npm ci && ./run.sh > log", "vim +10 a",
    "perl -pe 's/a/b/' a", "sed -i 's/a/b/' a", "awk '{print $1}' a", "kubectl get pods -n x -o yaml", "cargo build",
    "go test ./...", "pytest -q tests/*.py", "gpg -d a.gpg", "zip -r a.zip src", "split -l 100 a b", "man ls",
    "wait $!",
    "printf -v x '%s' a", "let i=1", "hash -r", "set -euo pipefail; ls", "test -v x", "[ -n \"$x\" ]", "getopts a x",
]  # fmt: skip


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", HARMLESS)
def test_an_ordinary_command_needs_no_approval_because_of_an_unrelated_denying_rule(text: str) -> None:
    assert is_silent(text)


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(
    ("words", "text", "outcome"),
    [
        ("npm publish", "npm pub", Verdict.DENY),
        ("npm publish", "npm publis --tag x", Verdict.DENY),
        ("npm publish", "npm pack", None),
        ("npm install", "npm i x", Verdict.DENY),
        ("npm rm", "npm uninstall x", Verdict.DENY),
        ("npm test", "npm t", Verdict.DENY),
        ("docker run", "docker container run x", Verdict.DENY),
        ("docker run", "docker ps", None),
        ("docker rmi", "docker image rm x", Verdict.DENY),
        ("docker rmi", "docker rm x", None),
        ("docker image", "docker image ls", Verdict.DENY),
        ("pip install", "pip3 install x", Verdict.ASK),
        ("pip install", "pip3.11 install x", Verdict.ASK),
        ("pip install", "python3 -m pip install x", Verdict.DENY),
        ("pip install", "python -Im pip install x", Verdict.DENY),
        ("pip install", "python3.11 -mpip install x", Verdict.DENY),
        ("pip install", "uv pip install x", Verdict.DENY),
        ("pip install", "pip list", None),
        ("cargo test", "cargo t", Verdict.DENY),
        ("git push", "git stash push", None),
        ("git push", "git pus", None),
    ],
)
def test_a_subcommand_is_found_under_its_aliases(words: str, text: str, outcome: Verdict | None) -> None:
    assert judge_with(rule(words, "deny")).judge_restrictions(text).verdict is outcome


BUILTINS = (
    *("alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "continue"),
    *("declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash"),
    *("history", "jobs", "kill", "let", "local", "mapfile", "popd", "printf", "pushd", "read", "readarray"),
    *("readonly", "return", "set", "shift", "shopt", "source", "test", "trap", "type", "typeset", "ulimit", "unset"),
    *("wait", "env", "find", "git", "ssh", "scp", "sftp", "xargs", "tar", "zip", "make", "npm", "docker", "python3"),
    *("sed", "vim", "strace", "runuser", "[", "."),
)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("name", "rest"), list(product(BUILTINS, ("", " -", " --", " -x", ' "$x"', " $x", " -p", " ''", " a=b", " a[0]")))
)
def test_unusual_arguments_never_raise(name: str, rest: str) -> None:
    for dialect in ("bash", "posix"):
        DENYING.judge_restrictions(f"{name}{rest}", dialect)
