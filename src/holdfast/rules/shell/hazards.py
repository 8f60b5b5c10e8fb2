"""What no rule may approve wide: programs that run or write what their arguments say, and options that do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell import git
from holdfast.rules.shell.wrappers import SHELLS, WRAPPERS, family

SHELL_CHANGING: Final = frozenset(
    {
        *(".", "alias", "bind", "builtin", "complete", "compopt", "declare", "disown", "enable", "eval", "exec"),
        *("export", "getopts", "hash", "let", "local", "mapfile", "popd", "pushd", "read", "readarray", "readonly"),
        *("set", "shift", "shopt", "source", "trap", "typeset", "ulimit", "umask", "unalias", "unset"),
    }
)
"""Builtins that change what later commands mean."""
INTERPRETERS: Final = frozenset(
    {
        *SHELLS,
        *("awk", "bc", "dc", "deno", "ed", "emacs", "ex", "expect", "gawk", "gdb", "julia", "lua", "luajit", "m4"),
        *("mawk", "nano", "nawk", "nim", "node", "nodejs", "nvim", "ocaml", "osascript", "perl", "php", "powershell"),
        *("pwsh", "pypy", "python", "r", "rscript", "ruby", "rview", "rvim", "sed", "sqlite", "tclsh", "test", "vi"),
        *("[", "view", "vim", "vimdiff", "wish"),
    }
)
RUNNERS: Final = frozenset(
    {
        *("ansible", "at", "batch", "bun", "bundle", "bunx", "cargo", "chmod", "chown", "composer", "conda", "cpio"),
        *("crontab", "curl", "dd", "docker", "fakeroot", "ftp", "gem", "go", "gradle", "helm", "info", "install"),
        *("java", "join", "jq", "just", "kubectl", "less", "ln", "make", "man", "more", "most", "mvn", "nc", "ncat"),
        *("ninja", "npm", "npx", "openssl", "patch", "pip", "pipx", "pnpm", "podman", "poetry", "printf", "rake"),
        *("rsync", "screen", "scp", "sftp", "socat", "split", "systemctl", "tar", "task", "tee", "terraform", "tmux"),
        *("tox", "uniq", "unzip", "uv", "uvx", "wget", "xdg-open", "yarn", "yq", "yum", "apt", "apt-get", "zip"),
    }
)
"""Programs some operand of which names code, a place to write to, or a transport."""
HAZARDOUS: Final = {
    "find": "-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir",
    "git": "-C -O -c --config-env --exec-path --ext-diff --extcmd --git-dir --open-files-in-pager --output "
    "--receive-pack --textconv --upload-pack --work-tree",
    "man": "-H -P --html --pager",
    "rg": "--hostname-bin --pre --pre-glob",
    "sed": "-i --in-place -f --file -e --expression -s -n",
    "sort": "-T -o --compress-program --files0-from --output",
    "ssh": "-F -o",
    "tar": "-I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command --to-command "
    "--use-compress-program",
}
"""Options that are asked about under every rule."""


def star_refusal(words: Sequence[str]) -> str:
    """Why these words may not be allowed with any operands after them; empty if they may."""
    name = family(words[0]).lower()
    if name in WRAPPERS or name in INTERPRETERS or name in RUNNERS:
        return f"'{name}' runs or writes whatever its arguments say"
    if name == "git" and (len(words) == 1 or words[1] not in git.STAR):
        return f"an operand of '{' '.join(words[:2])}' may name a program"
    return ""


def hazardous(program: str, option: str) -> bool:
    return option.rstrip("=") in HAZARDOUS.get(program, "").split()
