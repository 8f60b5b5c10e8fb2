"""Tables of programs that run other programs, of how they are told which, and of programs that never do."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.parts import Dialect, word_set

SHELLS: Final = word_set("""
    ash bash csh dash elvish fish hush ksh ksh93 lksh mksh nu oksh osh pdksh posh rbash rksh rzsh sh tcsh xonsh yash
    zsh
""")
OTHER_LANGUAGES: Final = frozenset({"csh", "elvish", "fish", "nu", "tcsh", "xonsh"})
"""Shells with a language other than POSIX."""
INTERPRETERS: Final = SHELLS | word_set("""
    [ awk bc dc deno ed emacs ex expect gawk gdb julia lua luajit m4 mawk nano nawk nim node nodejs nvim ocaml osascript
    perl php powershell pwsh pypy python r rscript ruby rview rvim sed sqlite tclsh test vi view vim vimdiff wish
""")
"""Programs whose operands are code or files with code."""


class Wrapper(Struct, frozen=True, kw_only=True):
    """The options of a program that runs the command in its arguments (`env`, `timeout`, `sudo`)."""

    valued: frozenset[str] = frozenset()
    """Options with a value in the next word."""
    flags: frozenset[str] = frozenset()
    """Options without a value. For an unknown option both interpretations are tried, and anything may run."""
    optional: frozenset[str] = frozenset()
    """Options with an optional, attached value."""
    leading: int = 0
    """The number of operands before the command."""
    assignments: bool = False
    joined: bool = False
    """Whether a shell runs the joined words."""
    runs_shell: bool = False
    """Whether it starts a shell on standard input if there is no command."""


def _wrapper(valued: str = "", flags: str = "", leading: int = 0, optional: str = "", **marks: bool) -> Wrapper:
    known, plain, attached = map(word_set, (valued, flags, optional))
    return Wrapper(valued=known, flags=plain, optional=attached, leading=leading, **marks)


WRAPPERS: Final = {
    "builtin": _wrapper(),
    "busybox": _wrapper(),
    "caffeinate": _wrapper("-t -w", "-d -i -m -s -u"),
    "chroot": _wrapper("--userspec --groups", "--skip-chdir", 1, runs_shell=True),
    "chrt": _wrapper("-T --sched-runtime -P --sched-period -D --sched-deadline",
                     "-a --all-tasks -b --batch -d --deadline -f --fifo -i --idle -o --other -r --rr -R "
                     "--reset-on-fork -v --verbose", 1),
    "command": _wrapper("", "-p -v -V"),
    "doas": _wrapper("-u -C -a", "-n -s -L", runs_shell=True),
    "env": _wrapper("-u --unset -C --chdir -a --argv0 -S --split-string",
                    "-i --ignore-environment -0 --null -v --debug - --list-signal-handling", 0,
                    "--block-signal --default-signal --ignore-signal", assignments=True),
    "exec": _wrapper("-a", "-c -l"),
    "flock": _wrapper("-w --wait --timeout -E --conflict-exit-code",
                      "-s --shared -x -e --exclusive -n --nb --nonblock -o --close -F --no-fork -u --unlock "
                      "--verbose", 1),
    "gosu": _wrapper("", "", 1),
    "ionice": _wrapper("-c --class -n --classdata -p --pid -P --pgid -u --uid", "-t --ignore"),
    "jobs": _wrapper("", "-l -n -p -r -s -x"),
    "logsave": _wrapper("", "-a -s -v", 1),
    "ltrace": _wrapper("-e -o -p -n -a -s -u -l -x", "-f -c -S -r -t -tt -T -i -C"),
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "nsenter": _wrapper("-t --target -S --setuid -G --setgid -W",
                        "-a --all -F --no-fork -Z --follow-context --preserve-credentials", 0,
                        "-m --mount -u --uts -i --ipc -n --net -p --pid -C --cgroup -U --user -T --time -r --root -w "
                        "--wd", runs_shell=True),
    "prlimit": _wrapper("-p --pid -o --output", "--noheadings --raw --verbose", 0,
                        "-c --core -d --data -e --nice -f --fsize -i --sigpending -l --memlock -m --rss -n --nofile "
                        "-q --msgqueue -r --rtprio -s --stack -t --cpu -u --nproc -v --as -x --locks -y --rttime"),
    "runuser": _wrapper("-u --user -g --group -G --supp-group -s --shell -w --whitelist-environment -c --command "
                        "--session-command", "-l --login - -m -p --preserve-environment -f --fast -P --pty",
                        runs_shell=True),
    "setpriv": _wrapper("--ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid "
                        "--groups --securebits --pdeathsig --selinux-label --apparmor-profile",
                        "--clear-groups --no-new-privs --nnp --init-groups --keep-groups --reset-env -d --dump"),
    "setsid": _wrapper("", "-c --ctty -f --fork -w --wait"),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-e -E -p -u -b -I -P -a -o -s -X -O -S -U --output --trace --env --user --string-limit "
                       "--trace-path", "-f -c -C -D -q -r -t -T -v -x -y -i -k -n -w -z -Z -A --follow-forks "
                       "--summary-only --no-abbrev"),
    "sudo": _wrapper("-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -r --role -t "
                     "--type -T --command-timeout -U --other-user",
                     "-A --askpass -b --background -B --bell -E -e --edit -H --set-home -i --login -k "
                     "--reset-timestamp -K --remove-timestamp -l --list -n --non-interactive -P --preserve-groups -s "
                     "--shell -S --stdin -V --version -v --validate -N", 0, "--preserve-env", assignments=True),
    "systemd-run": _wrapper("-p --property -u --unit -M --machine -H --host -E --setenv --slice --description --uid "
                            "--gid --nice --working-directory --service-type --on-active --on-calendar",
                            "-t --pty -P --pipe -S --shell -d --same-dir -G --collect -q --quiet -r "
                            "--remain-after-exit --user --scope --wait --no-block --no-ask-password",
                            runs_shell=True),
    "taskset": _wrapper("", "-a --all-tasks -c --cpu-list", 1),
    "time": _wrapper("-f -o --format --output", "-p --portability -a --append -v --verbose -q --quiet"),
    "timeout": _wrapper("-k --kill-after -s --signal", "-v --verbose --foreground --preserve-status", 1),
    "toybox": _wrapper(),
    "unshare": _wrapper("-S --setuid -G --setgid -R --root -w --wd --map-user --map-group --map-users --map-groups "
                        "--propagation --setgroups --monotonic --boottime",
                        "-m -u -i -n -p -U -C -T -r --map-root-user -f --fork -c --map-current-user --keep-caps", 0,
                        "--mount --uts --ipc --net --pid --user --cgroup --time --kill-child --mount-proc",
                        runs_shell=True),
    "watch": _wrapper("-n --interval -q --equexit",
                      "-b --beep -c --color -e --errexit -g --chgexit -p --precise -t --no-title -w --no-wrap -x "
                      "--exec", 0, "-d --differences", joined=True),
    "xargs": _wrapper("-a --arg-file -d --delimiter -E -I -L -n --max-args -P --max-procs -s --max-chars "
                      "--process-slot-var",
                      "-0 --null -r --no-run-if-empty -t --verbose -p --interactive -x --exit -o --open-tty "
                      "--show-limits", 0, "-i --replace -l --max-lines -e --eof"),
}  # fmt: skip
OPAQUE_WRAPPERS: Final = word_set("""
    aa-exec bunx bwrap capsh cgexec choom chpst chronic concurrently corepack cpulimit daemonize dbus-launch
    dbus-run-session dtach dumb-init entr envdir expect faketime fakechroot fakeroot firejail gdb hyperfine i386 ifne
    linux32 linux64 lldb mispipe nix-shell nodemon npx numactl pee perf pkexec proot proxychains rlwrap runcon
    schedtool screen sem setarch setuidgid softlimit ssh-agent start-stop-daemon su-exec systemd-nspawn tini tmux
    torsocks tsocks uname26 unbuffer uvx valgrind x86_64 xterm xvfb-run
""")
"""Wrappers with unknown options: the command may start at any word."""
SHELL_STARTERS: Final = frozenset({"login", "newgrp", "script", "scriptlive", "sg", "su"})
"""Programs that start a shell, which reads standard input unless there is a command."""
RUN_PROGRAMS: Final = word_set("""
    asdf bun bundle conda coverage direnv docker flatpak hatch kubectl mamba micromamba mise nerdctl nix npm pdm pipenv
    pixi pnpm podman poetry rustup rye snap toolbox uv yarn
""")
RUN_SUBCOMMANDS: Final = word_set("-c --command develop dlx exec new new-session new-window run shell tool x")
"""Subcommands and options after which the command may start at any word."""
HIDDEN_RUNNERS: Final = frozenset({"bashdb", "enable", "fc", "run-parts", "runit", "svscan"})
"""Programs and builtins that run commands that their words do not show."""
_AS_USER: Final = "-c --command --session-command"
COMMAND_OPTIONS: Final = {
    "ansible": "-a --args",
    "bind": "-x",
    "cargo": "--config",
    "compgen": "-C",
    "complete": "-C",
    "dpkg": "--pre-invoke --post-invoke",
    "dpkg-architecture": "-c --command",
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
COMMAND_VARIABLES: Final = re.compile(
    r"(?:BASH_ALIASES\[.*\]|BASH_CMDS\[.*\]|PROMPT_COMMAND|LESSOPEN|LESSCLOSE|SHELL|VISUAL"
    r"|[A-Z_]*(?:ASKPASS|BROWSER|COMMAND|DIFF|EDITOR|PAGER|SSH))\+?="
)
"""Variables that hold a command that programs run later."""
EXPANDED_VARIABLES: Final = re.compile(r"(?:BASH_ENV|ENV|PS[0-4])\+?=")
"""Variables that a shell expands at start-up or in a prompt. The first two name a script."""
INJECTING_VARIABLES: Final = re.compile(r"(?:BASH_FUNC_|GIT_CONFIG|GIT_EXEC_PATH|LD_|DYLD_)[^=]*\+?=")
"""Variables that make programs run code that is not in the command."""
DATA_PROGRAMS: Final = word_set("""
    7z : [ [[ apk apropos apt apt-get base32 base64 basename break brew bzip2 cal cat cd chgrp chmod chown chsh cksum
    clear cmp column comm continue cp curl cut date dd declare df diff dig dir dirname dmesg dnf dos2unix dpkg-query du
    echo egrep exit expand export expr factor false fgrep file find fmt fold free getent getfacl getopts gpg grep
    groups gunzip gzip head help hexdump history host hostname iconv id ifconfig join jq kill killall last let link ln
    local locale locate logger logname look ls lsblk lscpu lsof man md5 md5sum mkdir mkfifo mktemp mv netstat nl nproc
    nslookup numfmt od opkg passwd paste pbcopy pgrep pidof ping pip pip3 pipx pkill popd pr printenv printf ps pstree
    pushd pwd read readlink readonly realpath reset return rev rg rm rmdir seq set sha1sum sha256sum sha512sum shift
    shopt shred shuf sleep sort split stat stty sum sync tac tail tar tee test times touch tput tr traceroute tree true
    truncate tsort tty type typeset ulimit umask unalias uname uniq unlink unset unxz unzip uptime useradd userdel
    usermod users vmstat w wait wc wget whatis whereis which who whoami xxd xz yes yum zcat zip
""")
"""Programs that treat operands as data. Their options that run commands are known."""
CONFIGURABLE: Final = {
    "apt": ("-c", "-o", "--config", "--option"),
    "apt-get": ("-c", "-o", "--config", "--option"),
    "dnf": ("--setopt",),
    "pip": ("--editor",),
    "pip3": ("--editor",),
    "yum": ("--setopt",),
}
"""Options of these programs that may make them run something."""
FILE_RUNNERS: Final = SHELLS | {".", "source"}
"""Programs that run a file."""
RUNS_FILE_CONTENT: Final = FILE_RUNNERS | {"git", "pip", "pip3", "pipx"}
"""Programs that run the content of files, in addition to what their words show."""
VERSION: Final = re.compile(r"-?[0-9.]+$")


COMPARISONS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
"""Test operators that compare numbers; shells evaluate their operands as arithmetic."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*|:|\[\[?", re.ASCII)


def is_plain_name(word: str) -> bool:
    """Whether a word in command position can only be the name of a program."""
    return _NAME.fullmatch(word) is not None


def dialect_of(shell: str) -> Dialect:
    """The dialect of a shell."""
    name = program_name(shell)
    if name in ("bash", "rbash"):
        return "bash"
    return "posix" if name in SHELLS - OTHER_LANGUAGES - {"zsh", "rzsh"} else "other"


def is_script(program: str, by: str) -> bool:
    """Whether a file that is not a system program is run: by path, or by a shell (`by`)."""
    return by in FILE_RUNNERS or ("/" in program and not program.startswith(("/bin/", "/usr/")))


def program_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def family(word: str) -> str:
    """The name of a program without folder and version: `python3.11` is `python`."""
    name = program_name(word)
    return VERSION.sub("", name) or name
