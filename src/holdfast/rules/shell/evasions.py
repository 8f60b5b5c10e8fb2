"""The tricks the fuzzer knows: what harm is tried, and every place and spelling it is hidden in.

In the templates `{b}` is an allowed command, `{h}` a harmful one, `{p}` its program and `{a}` its arguments, `{w}` a
file to write and `{s}` a secret to read.
"""

from __future__ import annotations

from typing import Final

HARM: Final = (
    *("evil", "touch pwned", "rm canary.txt", "cp canary.txt pwned", "mv canary.txt pwned", "./evil", "tools/evil"),
    *("sh evil", "tee pwned", "ln -s / pwned", "mkdir pwned", "chmod 600 canary.txt", "truncate -s 0 canary.txt"),
    *("dd of=pwned", "cat ../outside/secret.txt", "cat ~/secret.txt", "sed -i s/a/b/ canary.txt", "install evil pwned"),
    *("python3 -c 'open(\"pwned\",\"w\")'", "perl -e 'unlink(\"canary.txt\")'", "git rm -f canary.txt", "git stash"),
)
WRITTEN: Final = (
    *("pwned", "canary.txt", "../outside/pwned", "~/pwned", "src/pwned", "$PWD/pwned", '"pwned"', "./canary.txt"),
    *("link-out/pwned", "/dev/null/../pwned", "/dev/../dev/shm/pwned", "'canary.txt'"),
)
SECRETS: Final = (
    "../outside/secret.txt", "~/secret.txt", "$HOME/secret.txt", '"$HOME"/secret.txt', "link-secret",
    "~+/link-secret", "link-out/secret.txt", "src/../../outside/secret.txt", "./../outside/secret.txt",
    "../outsi*/sec*", "link-*", "{../outside,x}/secret.txt", ".?/outside/secret.txt", "'../outside/secret.txt'",
    "..//outside/secret.txt", "/proc/self/cwd/../outside/secret.txt", "src/up/outside/secret.txt",
    "OUTSIDE/secret.txt", "link-out/./secret.txt",
)
SEPARATORS: Final = (
    "{b}; {h}", "{b};{h}", "{b} && {h}", "{b} || {h}", "{b} | {h}", "{b} |& {h}", "{b} & {h}", "{b}&{h}", "{b}\n{h}",
    "{b}\r\n{h}", "{b}\r{h}", "{b}\x0b{h}", "{b}\x0c{h}", "{b}\u2028{h}", "{b}\u2029{h}", "{b}\x85{h}", "{b}\xa0{h}",
    "{b}\u3000; {h}", "{h}; {b}", "{h} && {b}", "{h} || {b}", "{h} | {b}", "{h} & {b}", "{h}\n{b}", "{b} &&\n{h}",
    "{b}; true; {h}", "{b} \\\n; {h}", "{b} # note\n{h}", "{b} #\\\n{h}", "{b};\n\n{h}", "{b}\n\t{h}", "{b};;{h}",
    "{b} |\n{h}", "true && {b} && {h}", "{b} 2>&1 | {h}", "{b} >/dev/null; {h}", "{b}\\\n;{h}", "{b}\x00{h}",
)
SUBSTITUTIONS: Final = (
    "{b} $({h})", "{b} `{h}`", "{b} <({h})", "{b} >({h})", '{b} "$({h})"', '{b} "`{h}`"', "{b} $((`{h}`))",
    '{b} "${{x:=$({h})}}"', "{b} ${{x:-`{h}`}}", "{b} ${{x:-$({h})}}", "{b} ${{x[$({h})]}}", "{b} $((a[$({h})]))",
    "{b} $[$({h})]", "{b} {{a,$({h})}}", '{b} "a`{h}`b"', "{b} x$({h})y", "$({h}) {b}", "`{h}`; {b}", "{b} <<<$({h})",
    "{b} <<<`{h}`", "{b} ${{x/a/$({h})}}", "{b} ${{x#$({h})}}", "{b} \\\n$({h})", '{b} \'$({h})\'"$({h})"',
    "$({b}; {h})", "{b} ${{!x@P}}$({h})", "{b} -- $({h})", "{b} -n$({h})", '{b} $"$({h})"', "{b} ${{x:?$({h})}}",
    "{b} ${{x:+a}}`{h}`", '{b} "${{x:=`{h}`}}"', "{b} ${{x#`{h}`}}", "{b} ${{x^`{h}`}}", "{b} ${{x/`{h}`/b}}",
)
REDIRECTIONS: Final = (
    "{b} > {w}", "{b} >{w}", "{b} >> {w}", "{b} >| {w}", "{b} &> {w}", "{b} &>> {w}", "{b} 2> {w}", "{b} 1>{w}",
    "{b} <> {w}", "{b} >& {w}", "{b} 3>{w}", "{b} {{fd}}>{w}", "> {w} {b}", ">{w}", ": > {w}", "exec 3>{w}",
    "{b} >/dev/null >{w}", "{b} >{w} 2>&1", "{b} 2>&1 >{w}", "{b} 12>{w}", "{b} > {w} | cat", "{b}>{w}", "{b} <{s}",
    "cat < {s}", "{b} | cat > {w}", "{p} >{w} {a}", "2>{w} {b}", "{b} 0<{s}", "{b} <&0 >{w}", "{b} >&2 >{w}",
    "{b} 1<>{w}", "{b} >&\u0663", "{b} >&\u00b2", "{b} >&\uff11", "{b} 2>&\u0663", "{b} >&1\u0663", "{b} \u0663>{w}",
    "{b} <&\u0663", "{b} >&1x", "{b} >&-x", "{b} &>\u0663", "{b} >&0x1",
)
HEREDOCS: Final = (
    "cat <<E\n$({h})\nE", "cat <<E\n`{h}`\nE", "{b} <<E\n$({h})\nE", "bash <<'E'\n{h}\nE", "sh <<E\n{h}\nE",
    "{b} <<-E\n\t$({h})\n\tE", "cat <<E | {h}\nx\nE", "cat <<E > {w}\nx\nE", "cat <<E; {h}\nx\nE",
    "{b} <<E && {h}\nE", "cat <<E\n${{x:=$({h})}}\nE", "cat <<'E'\nx\nE\n{h}", "cat <<E\nx\nE\n{h}",
    "cat <<E\nE\n{h}\nE", "cat << \\E\nx\nE\n{h}",
)
VARIABLES: Final = (
    "PATH=.:$PATH {b}", "PATH=tools:$PATH {b}", "export PATH=$PWD/tools:$PATH; {b}",
    "declare -x PATH=tools:$PATH; {b}", "GIT_EXTERNAL_DIFF=./evil {b}", "GIT_PAGER=evil {b}", "PAGER=evil {b}",
    "GIT_SSH_COMMAND=evil {b}", "IFS=x {b}", "BASH_ENV=evil {b}", "LD_PRELOAD=./evil.so {b}",
    "env PATH=tools:$PATH {b}", "PATH=tools; {b}", "typeset -x PATH=tools; {b}",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./evil {b}", "x=$({h}) {b}",
    "x=`{h}`; {b}", "readonly PATH=tools; {b}", "GIT_DIR=../outside {b}", "LESSOPEN='|evil %s' {b}", "x=1 {h}",
    "a[$({h})]=1 {b}", "a=($({h}))", "PROMPT_COMMAND={h}; {b}", "GREP_OPTIONS=-f {b}", "RIPGREP_CONFIG_PATH=rc {b}",
    "PS4='$({h})' {b}", "x={h}; $x", "set -- {h}; $@", "local x=$({h}); {b}", "export x=$({h})", "HOME=.. {b}",
    "CDPATH=.. cd outside && cat secret.txt", "TMPDIR=. {b}",
)
NAMES: Final = (
    "\\{p} {a}", "./tools/{p} {a}", "tools/{p} {a}", "$PWD/tools/{p} {a}", "${{X:-{p}}} {a}", "$(printf {p}) {a}",
    "~+/tools/{p} {a}", "{{tools/{p},}} {a}", "`echo {p}` {a}", "OUTSIDE/tools/{p} {a}", "'tools/{p}' {a}",
    "t?ols/{p} {a}", '"{p}" {a}', "'{p}' {a}", "{p}'' {a}", "$'\\x65vil'", "ev\\il", '"ev"il', "e''vil",
    "${{X:-evil}}", "$(printf evil)", "e[v]il", "{{evil,x}}", "$'ev\\x69l' {a}", "ev$9il", "ev${{x}}il", "./evil",
    "tools/evil {a}", "../project/evil", "~+/evil", "hash -p ./evil {p}; {b}", "enable -n {p}; {b}", "{p}\\ {a}",
    "-- {b}", "{p}\t./evil", "{p}\u200b {a}", "evil\u200b",
)
WRAPPED: Final = (
    "xargs {h}", "{b} | xargs {h}", "env {h}", "env -S '{h}'", "env -i {h}", "time {h}", "nice {h}", "nice -n 5 {h}",
    "timeout 5 {h}", "command {h}", "builtin eval '{h}'", "exec {h}", "nohup {h}", "setsid {h}", "stdbuf -o0 {h}",
    "eval {h}", "eval '{h}'", "bash -c '{h}'", "sh -c '{h}'", "bash -lc '{h}'", ". ./evil", "source ./evil",
    "coproc {h}", "trap '{h}' EXIT", "trap '{h}' DEBUG; {b}", "busybox {h}", "{b} | sh", "echo '{h}' | sh",
    "echo {h} | bash -s", 'awk \'BEGIN{{system("{h}")}}\'', 'perl -e \'system("{h}")\'',
    'python3 -c \'import os;os.system("{h}")\'', "{b} | tee {w}", "find . -exec {h} \\;",
    "find . -maxdepth 0 -exec sh -c '{h}' \\;", "time nice env {h}", "timeout 5 nice {h}", "command -p {h}",
    "env env env env env env env env env env {h}", "printf '%s\\n' '{h}' | xargs -I% sh -c %",
    "script -qc '{h}' /dev/null", "flock notes.txt {h}", "env -C src {h}", "time -o pwned {b}",
    "timeout 5 env -S '{h}'", "command eval '{h}'", "time -p {h}", "xargs -a notes.txt {h}", "nice -n5 {h}",
    "timeout -s KILL 5 {h}", "stdbuf -oL sh -c '{h}'", "chrt -o 0 {h}", "{b} | xargs -n1 {h}",
    "echo {h} | xargs -0 sh -c", "command cd .. && cat outside/secret.txt", "time cd ..; cat outside/secret.txt",
    "env evil", "nice ./evil", "bash -o pipefail -c '{h}'", "bash -O extglob -c '{h}'", "bash --rcfile y -c '{h}'",
    "bash -c -e '{h}'", "flock notes.txt -c '{h}'", "script -qc '{h}' f", "runuser -u root -- {h}",
    "coproc N {{ {h}; }}", "sh <<< '{h}'", "alias q='{h}'; q", "mapfile -c 1 -C '{h}' < notes.txt",
    "setarch -R {h}", "ssh-agent {h}", "git bisect run {h}", "git -c alias.q='!{h}' q", "env PAGER='{h}' {b}",
    "timeout \u0665 {h}", "nice -n \u0665 {h}", "compgen -C '{h}'", "parallel ::: '{h}'",
    ". /dev/stdin <<< '{h}'", "timeout 5 setarch -R {h}", "time {{ {h}; }}",
)
OPTIONS: Final = (
    "git -c core.pager=evil log", "git -c alias.x='!evil' x", "git log --output={w}", "git log -p --output {w}",
    "git -C ../outside log", "git --git-dir=../outside status", "git --exec-path=tools log",
    "git --config-env=a=b log", "git -c core.fsmonitor=./evil status", "git -c diff.external=./evil diff HEAD",
    "git diff --ext-diff", "git show --textconv", "git grep -O./evil one",
    "git grep --open-files-in-pager=./evil one", "git diff --no-index /dev/null {s}", "git diff notes.txt {s}",
    "git fetch --upload-pack=./evil .", "git clone ext::./evil pwned", "git archive --remote=. --exec=./evil HEAD",
    "git branch pwned", "git tag pwned", "git config x.y z", "git blame --contents {s} notes.txt",
    "git checkout -- .", "git clean -fdx", "git add .", "git stash", "git commit -am x", "git log -O{s}",
    "git ls-files -X {s}", "git apply x", "git hash-object -w notes.txt", "git gc", "git rev-parse --sq-quote x",
    "git bisect run ./evil", "git submodule foreach ./evil", "git rebase -x ./evil HEAD~1", "git -p log",
    "find . -delete", "find . -exec ./evil \\;", "find . -execdir ./evil \\;", "find . -ok ./evil \\;",
    "find . -fprintf {w} x", "find . -fls {w}", "find . -fprint {w}", "find . -fprint0 {w}",
    "find -L . -name secret.txt -exec cat {{}} +", "find {s} -exec cat {{}} +", "sed -i s/a/b/ canary.txt",
    "sed 'w {w}' notes.txt", "sed '1e ./evil' notes.txt", "sed 's/o/.\\/evil/e' notes.txt",
    "sed -n '1w {w}' notes.txt", "sed -n 1p notes.txt -i", "sed -n '1p;w {w}' notes.txt", "sed -n -f evil notes.txt",
    "sed -n 1p {s}", "sed -n '$p;e ./evil' notes.txt", "sed -ni 1p canary.txt", "sed -n '\u0663p' {s}",
    "head -\u0663 {s}", "sort -o {w} notes.txt", "sort -o{w} notes.txt", "sort --output={w} notes.txt",
    "sort -uo {w} notes.txt", "sort --outp={w} notes.txt",
    "sort --compress-program=./evil -S 1 notes.txt", "sort --files0-from={s}", "sort {s}", "sort notes.txt -o {w}",
    "uniq notes.txt {w}", "uniq -c notes.txt {w}", "uniq -- notes.txt {w}", "rg --pre ./evil one",
    "rg --pre=./evil one", "rg --hostname-bin ./evil one", "rg one {s}", "rg -z one", "rg -f {s} one", "rg -L SECRET",
    "rg --follow SECRET", "rg -e SECRET {s}", "rg --files {s}", "grep -f {s} notes.txt", "grep '' {s}",
    "grep -R SECRET .", "grep -rh SECRET ..", "grep --dereference-recursive SECRET .", "grep -e '' {s}",
    "grep -rn SECRET {s}", "grep -e SECRET link-secret", "wc --files0-from={s}", "du --files0-from={s}",
    "file -f {s}", "file -C -m notes.txt", "date -f {s}", "date -s 0", "head {s}", "head -n5 {s}", "tail -n5 {s}",
    "cat {s}", "cat -- {s}", "cat notes.txt {s}", "tac {s}", "nl {s}", "cut -c1-99 {s}", "paste {s}",
    "cmp -l notes.txt {s}", "comm {s} notes.txt", "tail --follow=name {s}", "tr a b < {s}", "cksum {s}", "ls {s}/..",
    "base64 {s}", "xxd {s}", "od -c {s}", "strings {s}", "diff notes.txt {s}", "tee {w}", "tee {w} < notes.txt",
    "cp {s} pwned", "tar cf {w} .", "tar xf notes.txt --to-command=./evil",
    "tar cf /dev/null . --checkpoint=1 --checkpoint-action=exec=./evil", "less notes.txt", "man -P ./evil ls",
    "ssh -o ProxyCommand=./evil x", "dd if=notes.txt of={w}", "split notes.txt pwned", "csplit notes.txt 1",
    "ln notes.txt {w}", "sha256sum -c {s}", "stat -c %n:%s {w} > {w}", "mkfifo {w}", "which -a ../evil",
    "printf x > {w}", "printf -v 'a[$({h})]' x", "echo x | dd of={w}", "seq 1 3 > {w}", "install notes.txt {w}",
    "rsync notes.txt {w}", "shred canary.txt", "unlink canary.txt", "rmdir src", "touch {w}",
    "truncate -s0 canary.txt",
)
FOLDERS: Final = (
    "cd .. && cat outside/secret.txt", "cd link-out; cat secret.txt", "cd src; cat ../../outside/secret.txt",
    "cd; cat secret.txt", "cd ~ && cat secret.txt", "cd - && {b}", "pushd ..; cat outside/secret.txt",
    "cd src && cd .. && cd .. && cat outside/secret.txt", "cd OUTSIDE && cat secret.txt",
    "cd src/up; cat outside/secret.txt", "cd src; cd ../..; cat outside/secret.txt",
    "(cd ..; cat outside/secret.txt)", "cd ./link-out && cat secret.txt", "cd -P link-out; cat secret.txt",
    "cd src || cat {s}", "{{ cd ..; }}; cat outside/secret.txt", "cd 'src' && cat ../{s}",
    "cd src/.. ; cd .. ; cat outside/secret.txt", 'cd ".."; cat outside/secret.txt',
    "cd src && cat up/outside/secret.txt", "cd src && ls | cat {s}",
)
DEFINITIONS: Final = (
    "{p}() {{ {h}; }}; {b}", "function {p} {{ {h}; }}; {b}", "{p}() ( {h} ); {b}", "alias {p}='{h}'; {b}",
    "shopt -s expand_aliases\nalias {p}='{h}'\n{b}", "f() {{ {h}; }}; f", "set -o noclobber; {b}",
    "set -x; PS4='$({h})'; {b}", "shopt -s extdebug; {b}", "unset PATH; {b}", "cd() {{ {h}; }}; cd src",
    "command_not_found_handle() {{ {h}; }}; nope", "BASH_ENV=evil bash -c '{b}'", "echo() {{ {h}; }}\n{b}\necho x",
    "enable -f ./evil x", "complete -C ./evil x",
)
ARITHMETIC: Final = (
    "test -v 'a[$({h})]'", "[ -v 'a[$({h})]' ]", "[[ 'a[$({h})]' -eq 1 ]]", "printf -v 'a[$({h})]' x",
    "let 'a[$({h})]=1'", "(( a[$({h})] ))", "echo $((a[$({h})]))", "read 'a[$({h})]' <<<x", "unset 'a[$({h})]'",
    "declare 'a[$({h})]=1'", "x='a[$({h})]'; [[ $x -eq 0 ]]", "x='a[$({h})]'; echo $((x))", "echo ${{a[$({h})]}}",
    "[[ -v a[$({h})] ]]", "for (( i=a[$({h})]; i<1; i++ )); do :; done", "echo ${{x:a[$({h})]}}",
    "test 'a[$({h})]' -eq 0", "wait -p 'a[$({h})]'",
)
CONTROL: Final = (
    "if {b}; then {h}; fi", "for i in 1; do {h}; done", "while {h}; do break; done", "until {h}; do break; done",
    "case x in x) {h};; esac", "{{ {b}; {h}; }}", "( {h} )", "({h})", "! {h}", "{b} && {{ {h}; }}",
    "coproc {{ {h}; }}", "if {h}; then {b}; fi", "{b} && ( {b}; {h} )", "case $({h}) in x) ;; esac",
    "select i in a; do {h}; break; done <<<1", "for i in $({h}); do {b}; done", "[[ -n $({h}) ]] && {b}",
    "! {b} || {h}", "time ( {h} )", "while read l; do {h}; done < notes.txt",
)
ENCODED: Final = (
    "echo ZXZpbAo= | base64 -d | sh", 'bash -c "$(base64 -d<<<ZXZpbAo=)"', "$(echo 6576696c | xxd -r -p)",
    "printf '\\145vil' | sh", "eval $'\\x65vil'", "eval $'\\145\\166\\151\\154'", "echo evil | rev | rev | sh",
    "$'\\u0065vil'", "x=ev; ${{x}}il", "a=il; ev$a", 'eval "$(echo ev)il"', "sh<<<evil", "{b} $'\\n' evil",
)
QUOTES: Final = (
    "{b} 'x; {h}", '{b} "x; {h}', "{b} 'a'; {h}; echo 'b'", '{b} "a\\"; {h}; echo "', "{b} \\'; {h}; \\'",
    "{b} '\\''; {h}; '", '{b} "a\'b"; {h}; \'c\'', "{b} #' \n{h} #'", "{b} '#'; {h}", "{b} \\\\; {h}",
    "{b} '\\'; {h} #'", "{b} $'\\''; {h}; '", '{b} "$\'" ; {h} ; \'', "{b} ''; {h}", "{b} \\\n\\\n; {h}",
    "{b} a\\;{h}", "{b} \\\\\n{h}", '{b} "\\\\"; {h}', "{b} '$(' ; {h} ; ')'", "{b} \\$({h})", "{b} \\\\$({h})",
    '{b} "\\$({h})"', '{b} "\\\\$({h})"', "{b} '`'; {h}; '`'", "echo '\n{h}\n'", "echo a'\n'; {h}", '{b} #"\n{h}\n#"',
    "{b} {{x,'; {h} ;'}}", "{b} -e 'a' -e \\'; {h}", '{b} "\n{h}\n"; {h}', "{b} ;'' {h}", "{b} \u2018;\u2019 {h}",
)
TEMPLATES: Final = {
    "separator": SEPARATORS,
    "substitution": SUBSTITUTIONS,
    "redirection": REDIRECTIONS,
    "here-document": HEREDOCS,
    "variable": VARIABLES,
    "program name": NAMES,
    "wrapper": WRAPPED,
    "option": OPTIONS,
    "folder": FOLDERS,
    "definition": DEFINITIONS,
    "arithmetic": ARITHMETIC,
    "control flow": CONTROL,
    "encoding": ENCODED,
    "quoting": QUOTES,
}
