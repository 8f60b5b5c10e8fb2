"""What no rule may approve wide: programs that run or write what their arguments say, and options that do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell import git
from holdfast.rules.shell.known import CHECKS, READERS
from holdfast.rules.shell.place import Place
from holdfast.rules.shell.scripts import SHELLS
from holdfast.rules.shell.wrappers import WRAPPERS, family

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
        *("ar", "as", "bear", "bmake", "bzip", "c++", "cc", "ccache", "clang", "clang++", "cmake", "cpp"),
        *("coverage", "csplit", "ctest", "distcc", "dotnet", "ffmpeg", "g++", "gcc", "gfortran", "gh", "ghc", "glab"),
        *("gmake", "gunzip", "gzip", "hatch", "invoke", "javac", "jshell", "kotlin", "ld", "lld", "mill", "nmake"),
        *("nox", "objcopy", "pdm", "pre-commit", "rust-gdb", "rustc", "sbt", "scala", "sccache", "swift", "swiftc"),
        *("tcc", "tsx", "ts-node", "waf", "xz", "zig", "zstd"),
        *("tox", "uniq", "unzip", "uv", "uvx", "wget", "xdg-open", "yarn", "yq", "yum", "apt", "apt-get", "zip"),
    }
)
"""Programs some operand of which names code, a place to write to, or a transport."""
SYSTEM: Final = frozenset(
    {
        *("adduser", "apk", "apt", "apt-get", "aptitude", "brew", "chattr", "chgrp", "chpasswd", "chsh", "date"),
        *("delgroup", "deluser", "depmod", "dmsetup", "dnf", "dpkg", "fdisk", "flatpak", "fsck", "gpasswd", "groupadd"),
        *("groupdel", "groupmod", "halt", "hostname", "hostnamectl", "hwclock", "ifconfig", "init", "insmod", "ip"),
        *("iptables", "kexec", "kill", "killall", "ldconfig", "localectl", "loginctl", "losetup", "mkfs", "mknod"),
        *("mkswap", "modprobe", "mount", "nft", "pacman", "parted", "passwd", "pkill", "poweroff", "reboot", "renice"),
        *("rmmod", "route", "rpm", "service", "setcap", "setfacl", "shutdown", "snap", "swapoff", "swapon", "sysctl"),
        *("tc", "telinit", "timedatectl", "ufw", "umount", "update-alternatives", "useradd", "userdel", "usermod"),
        *("visudo", "wall", "wipefs", "zypper"),
    }
)
"""Programs that change the system, not files of the project."""
_COMPILERS: Final = ("-ar", "-as", "-c++", "-cc", "-clang", "-cpp", "-g++", "-gcc", "-ld")
"""How their names for other machines end."""
_JOINTS: Final = re.compile("[=:,@]")
"""What stands before a path inside a word."""
_MAX_JOINTS: Final = 16
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
    name = words[0].lower()
    names = {name, family(name), name.partition(".")[0]}
    if names & SYSTEM:
        return f"'{name}' changes the system"
    if names & (WRAPPERS | INTERPRETERS | RUNNERS) or family(name).endswith(_COMPILERS):
        return f"'{name}' runs or writes whatever its arguments say"
    if name == "git" and (len(words) == 1 or words[1] not in git.STAR):
        return f"an operand of '{' '.join(words[:2])}' may name a program"
    return ""


def pieces(word: str) -> list[str]:
    """The paths a word may hold beside being one: what follows `=`, `:`, `,` or `@`, whole and up to the next."""
    after = [word[found.end() :] for found in _JOINTS.finditer(word)]
    return [piece for piece in (*after, *_JOINTS.split(word)) if piece and piece != word]


def operand_refusal(word: str, place: Place) -> str:
    """Why an operand may be more than a file of the project; empty if it is not. The values of options may be."""
    if len(_JOINTS.findall(word)) > _MAX_JOINTS:
        return f"'{word[:40]}…' has too many parts to look at"
    if word.startswith("-"):
        return ""
    if word.startswith("@"):
        return f"'{word}' may name a file of arguments"
    for piece in pieces(word):
        if piece.startswith("~") or not place.holds(piece):
            return f"'{piece}' in '{word}' is not inside the project"
    return ""


def reads_only(words: Sequence[str]) -> bool:
    """Whether a rule is about a program that changes no file it is given."""
    if words[0] == "git":
        return len(words) > 1 and words[1] in git.READING - {"branch"}
    return words[0] in READERS or words[0] in CHECKS


def hazardous(program: str, option: str) -> bool:
    return option.rstrip("=") in HAZARDOUS.get(program, "").split()
