"""What is known about programs that run other programs: how they are told which, and which programs never do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.verdicts import Dialect

SHELLS: Final = frozenset(
    {
        *("ash", "bash", "csh", "dash", "elvish", "fish", "hush", "ksh", "ksh93", "lksh", "mksh", "nu", "oksh", "osh"),
        *("pdksh", "posh", "rbash", "rksh", "rzsh", "sh", "tcsh", "xonsh", "yash", "zsh"),
    }
)
OTHER_LANGUAGES: Final = frozenset({"csh", "elvish", "fish", "nu", "tcsh", "xonsh"})
"""Shells that do not read POSIX scripts."""
INTERPRETERS: Final = frozenset(
    {
        *SHELLS,
        *("awk", "bc", "dc", "deno", "ed", "emacs", "ex", "expect", "gawk", "gdb", "julia", "lua", "luajit", "m4"),
        *("mawk", "nano", "nawk", "nim", "node", "nodejs", "nvim", "ocaml", "osascript", "perl", "php", "powershell"),
        *("pwsh", "pypy", "python", "r", "rscript", "ruby", "rview", "rvim", "sed", "sqlite", "tclsh", "test", "vi"),
        *("[", "view", "vim", "vimdiff", "wish"),
    }
)
"""Programs whose operands are code, or files of code."""


class Wrapper(Struct, frozen=True, kw_only=True):
    """How a wrapper's own arguments end, and what it runs."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    flags: frozenset[str] = frozenset()
    """Options without a value. Whether others have one is not known, so both are looked at."""
    leading: int = 0
    """Operands before the command."""
    assignments: bool = False
    joined: bool = False
    """A shell runs the words, put together."""
    runs_shell: bool = False
    """Without a command it runs a shell on its own input."""


def _wrapper(
    valued: str = "",
    flags: str = "",
    leading: int = 0,
    *,
    assignments: bool = False,
    joined: bool = False,
    runs_shell: bool = False,
) -> Wrapper:
    return Wrapper(
        valued=frozenset(valued.split()),
        flags=frozenset(flags.split()),
        leading=leading,
        assignments=assignments,
        joined=joined,
        runs_shell=runs_shell,
    )


WRAPPERS: Final = {
    "builtin": _wrapper(),
    "busybox": _wrapper(),
    "caffeinate": _wrapper("-t -w", "-d -i -m -s -u"),
    "chroot": _wrapper("", "", 1, runs_shell=True),
    "chrt": _wrapper("-T -P -D", "-b -f -i -o -r -a -v -R", 1),
    "command": _wrapper("", "-p"),
    "doas": _wrapper("-u -C -a", "-n -s -L", runs_shell=True),
    "env": _wrapper("-u --unset -C --chdir -a --argv0", "-i --ignore-environment -0 --null -v --debug -", 0,
                    assignments=True),
    "exec": _wrapper("-a", "-c -l -cl -lc"),
    "flock": _wrapper("-w --timeout -E", "-s -x -e -n -o -F -u", 1),
    "gosu": _wrapper("", "", 1),
    "ionice": _wrapper("-c --class -n --classdata -p -P -u", "-t"),
    "jobs": _wrapper("", "-x"),
    "logsave": _wrapper("", "-a -s -v", 1),
    "ltrace": _wrapper("-e -o -p -n -a -s -u -l -x", "-f -c -S -r -t -tt -T -i -C"),
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "nsenter": _wrapper("-t --target -S -G", "-a -m -u -i -n -p -C -U -F -Z", runs_shell=True),
    "prlimit": _wrapper("-p --pid"),
    "runuser": _wrapper("-u --user -g -G -s --shell", "-l - -m -p -f", runs_shell=True),
    "setpriv": _wrapper("", "--clear-groups --no-new-privs --init-groups --keep-groups --reset-env"),
    "setsid": _wrapper("", "-c --ctty -f --fork -w --wait"),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-e -o -p -s -u -E -a -P -S -O -b -I -X", "-f -ff -c -C -D -q -r -t -tt -T -v -x -y -i -k"),
    "sudo": _wrapper("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -r -t -T -U",
                     "-A -b -E -e -H -k -K -l -n -P -S -V -v", 0, assignments=True),
    "systemd-run": _wrapper("-p -u -M -H --unit --property --slice",
                            "-t -P -S -d -G -q -r --user --scope --pty --wait --pipe", runs_shell=True),
    "taskset": _wrapper("", "-a -c", 1),
    "time": _wrapper("-f -o --format --output", "-p -a -v -q"),
    "timeout": _wrapper("-k --kill-after -s --signal", "-v --foreground --preserve-status", 1),
    "toybox": _wrapper(),
    "unshare": _wrapper("-S -G -R -w", "-m -u -i -n -p -U -r -f -c -C -T", runs_shell=True),
    "watch": _wrapper("-n --interval", "-b -c -d -e -g -p -q -r -t -w -x --beep --color --differences --exec",
                      joined=True),
    "xargs": _wrapper("-a -d -E -I -L -n -P -s --arg-file --delimiter --replace --max-args --max-procs --max-lines",
                      "-0 -r -t -p -x -o -i -l -e --null --no-run-if-empty --verbose --interactive"),
}  # fmt: skip
ANYWHERE: Final = frozenset(
    {
        *("aa-exec", "bunx", "bwrap", "capsh", "cgexec", "choom", "chpst", "chronic", "concurrently", "cpulimit"),
        *("daemonize", "dbus-launch", "dbus-run-session", "dtach", "dumb-init", "entr", "envdir", "expect", "faketime"),
        *("fakechroot", "fakeroot", "firejail", "gdb", "hyperfine", "i386", "ifne", "linux32", "linux64", "lldb"),
        *("mispipe", "nix-shell", "nodemon", "npx", "numactl", "pee", "perf", "pkexec", "proot", "proxychains"),
        *("rlwrap", "runcon", "schedtool", "sem", "setarch", "setuidgid", "softlimit", "ssh-agent"),
        *("start-stop-daemon", "su-exec", "systemd-nspawn", "tini", "torsocks", "tsocks", "uname26", "unbuffer"),
        *("uvx", "valgrind", "x86_64", "xterm", "xvfb-run"),
    }
)
"""Wrappers whose own arguments are not known: the command may begin at any of their words."""
SHELL_STARTERS: Final = frozenset({"login", "newgrp", "script", "scriptlive", "sg", "su"})
"""Programs that start a shell, which reads their input unless they are told a command."""
AFTER_RUN: Final = frozenset(
    {
        *("asdf", "bun", "bundle", "conda", "coverage", "direnv", "docker", "flatpak", "hatch", "kubectl", "mamba"),
        *("micromamba", "mise", "nerdctl", "nix", "npm", "pdm", "pipenv", "pixi", "pnpm", "podman", "poetry", "rustup"),
        *("rye", "screen", "snap", "tmux", "toolbox", "uv", "yarn"),
    }
)
RUN: Final = frozenset(
    {"-c", "--command", "develop", "dlx", "exec", "new", "new-session", "new-window", "run", "shell", "tool", "x"}
)
"""Subcommands after which the command may begin at any word."""
HIDING: Final = frozenset({"bashdb", "enable", "fc", "run-parts", "runit", "svscan"})
"""Programs and builtins that run what their words do not show."""
_AS_USER: Final = "-c --command --session-command"
HELD: Final = {
    "ansible": "-a --args",
    "bind": "-x",
    "cargo": "--config",
    "compgen": "-C",
    "complete": "-C",
    "dpkg": "--pre-invoke --post-invoke",
    "dpkg-architecture": "-c",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "fish": "-C -c --command --init-command",
    "flock": "-c --command",
    "git": "-x -O --exec --extcmd --upload-pack --receive-pack --open-files-in-pager --setup --env-filter "
    "--tree-filter --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter --sendmail-cmd "
    "--smtp-server --to-cmd --cc-cmd",
    "go": "-exec -toolexec -vettool",
    "install": "--strip-program",
    "lftp": "-c -e",
    "make": "--eval",
    "man": "-P -H --pager --html --preprocessor",
    "mapfile": "-C",
    "nc": "-e -c",
    "ncat": "-e -c --exec --sh-exec --lua-exec",
    "nix-shell": "--run --command",
    "npm": "--script-shell --shell",
    "readarray": "-C",
    "rg": "--pre --hostname-bin",
    "rsync": "-e --rsh --rsync-path",
    "runuser": _AS_USER,
    "scp": "-S -D",
    "script": "-c --command",
    "sftp": "-S -D",
    "sg": "-c",
    "sort": "--compress-program",
    "split": "--filter",
    "su": _AS_USER,
    "tar": "-F -I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command --to-command "
    "--use-compress-program",
    "tcpdump": "-z",
    "vi": "-c --cmd",
    "vim": "-c --cmd",
    "wget": "--use-askpass",
    "zip": "-TT --unzip-command",
}
"""Options whose value is a command."""
STORED: Final = re.compile(
    r"(?:BASH_ALIASES\[.*\]|BASH_CMDS\[.*\]|PROMPT_COMMAND|LESSOPEN|LESSCLOSE|SHELL|VISUAL"
    r"|[A-Z_]*(?:ASKPASS|BROWSER|COMMAND|DIFF|EDITOR|PAGER|SSH))\+?="
)
"""Variables that hold a command for later."""
EXPANDED: Final = re.compile(r"(?:BASH_ENV|ENV|PS[0-4])\+?=")
"""Variables that a shell expands when it starts, or when it shows a prompt. The first two name a script."""
UNSEEN: Final = re.compile(r"(?:BASH_FUNC_|GIT_CONFIG|GIT_EXEC_PATH|LD_|DYLD_)[^=]*\+?=")
"""Variables that make programs run what is not in the command."""
DATA: Final = frozenset(
    {
        *("7z", ":", "[", "[[", "apk", "apropos", "apt", "apt-get", "base32", "base64", "basename", "break"),
        *("brew", "bzip2", "cal", "cat", "cd", "chgrp", "chmod", "chown", "chsh", "cksum", "clear", "cmp"),
        *("column", "comm", "continue", "cp", "curl", "cut", "date", "dd", "declare", "df", "diff", "dig", "dir"),
        *("dirname", "dmesg", "dnf", "dos2unix", "dpkg-query", "du", "echo", "egrep", "exit", "expand", "export"),
        *("expr", "factor", "false", "fgrep", "file", "find", "fmt", "fold", "free", "getent", "getfacl"),
        *("getopts", "gpg", "grep", "groups", "gunzip", "gzip", "head", "help", "hexdump", "history", "host"),
        *("hostname", "iconv", "id", "ifconfig", "join", "jq", "kill", "killall", "last", "let", "link", "ln"),
        *("local", "locale", "locate", "logger", "logname", "look", "ls", "lsblk", "lscpu", "lsof", "man", "md5"),
        *("md5sum", "mkdir", "mkfifo", "mktemp", "mv", "netstat", "nl", "nproc", "nslookup", "numfmt", "od"),
        *("opkg", "passwd", "paste", "pbcopy", "pgrep", "pidof", "ping", "pip", "pip3", "pipx", "pkill", "popd"),
        *("pr", "printenv", "printf", "ps", "pstree", "pushd", "pwd", "read", "readlink", "readonly", "realpath"),
        *("reset", "return", "rev", "rg", "rm", "rmdir", "seq", "set", "sha1sum", "sha256sum", "sha512sum"),
        *("shift", "shopt", "shred", "shuf", "sleep", "sort", "split", "stat", "stty", "sum", "sync", "tac"),
        *("tail", "tar", "tee", "test", "times", "touch", "tput", "tr", "traceroute", "tree", "true", "truncate"),
        *("tsort", "tty", "type", "typeset", "ulimit", "umask", "unalias", "uname", "uniq", "unlink", "unset"),
        *("unxz", "unzip", "uptime", "useradd", "userdel", "usermod", "users", "vmstat", "w", "wait", "wc", "wget"),
        *("whatis", "whereis", "which", "who", "whoami", "xxd", "xz", "yes", "yum", "zcat", "zip"),
    }
)
"""Programs to which their operands are data. What their options run is known."""
_CONFIGURABLE: Final = {
    "apt": ("-c", "-o", "--config", "--option"),
    "apt-get": ("-c", "-o", "--config", "--option"),
    "dnf": ("--setopt",),
    "pip": ("--editor",),
    "pip3": ("--editor",),
    "yum": ("--setopt",),
}
"""Options of these that may make them run something."""
FILE_RUNNERS: Final = SHELLS | {".", "source"}
"""Programs that run a file they are given."""
_RUNS_FILES: Final = FILE_RUNNERS | AFTER_RUN | {"git"}
"""Programs that run what files say, beside what their words show."""
VERSION: Final = re.compile(r"-?[0-9.]+$")


COMPARISONS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
"""Operators of tests that compare numbers, or whatever evaluates to one."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*|:|\[\[?", re.ASCII)


def is_plain_name(word: str) -> bool:
    """Whether a word in command position can only be the bare name of a program."""
    return _NAME.fullmatch(word) is not None


def dialect_of(shell: str) -> Dialect:
    """How the shell of that name reads a script."""
    name = program_name(shell)
    if name in ("bash", "rbash"):
        return "bash"
    return "posix" if name in SHELLS - OTHER_LANGUAGES - {"zsh", "rzsh"} else "other"


def may_run(words: Sequence[str | None], *, writes: bool) -> bool:
    """Whether a command may start programs that are named in what it is given, and its words do not show which.

    `writes`: whether files are written before, which it may be given.
    """
    if not words or words[0] is None:
        return False
    name = program_name(words[0])
    if name in _RUNS_FILES:
        return writes
    if name in DATA:
        options = _CONFIGURABLE.get(name)
        return options is not None and any((word or "").startswith(options) for word in words[1:])
    return name not in WRAPPERS


def is_script(program: str, by: str) -> bool:
    """Whether a file is run that is not a program of the system: by its path, or by a shell (`by`)."""
    return by in FILE_RUNNERS or ("/" in program and not program.startswith(("/bin/", "/usr/")))


def program_name(word: str) -> str:
    """The name a program goes by, without its folder."""
    return word.rpartition("/")[2]


def family(word: str) -> str:
    """The same without a version: `python3.11` is `python`."""
    name = program_name(word)
    return VERSION.sub("", name) or name
