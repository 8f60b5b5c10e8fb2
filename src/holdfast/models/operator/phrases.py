"""The grammar: every phrase the operator understands, with its tool. The user's page lists exactly these."""

from __future__ import annotations

from typing import Final

from holdfast.models.operator import building as build
from holdfast.models.operator.forms import Build, Phrase

_SHOW: Final = "read/show/open/view/display/print/cat [me]"
_FROM: Final = "of/from/in [the file] FILE"
_IN: Final = "in/under/of (FOLDER / [the] folder/directory DIR)"
_AT: Final = "in (FOLDER / [the] folder/directory DIR)"
_SEARCH: Final = "(search for / look for / grep [for])"
_REGEX: Final = "[the] (regex / pattern / regular expression)"
_WHERE: Final = "[in/under PLACE]"
_RUN: Final = "run/execute [the/this] [shell] [command] [:]"
_MAKE: Final = "write/create/make [a/the] [new]"
_HOLDING: Final = "(with / containing / that contains) [the] [content/contents/text]"
_FLAT: Final = build.listing(None)
_DEEP: Final = build.listing(True)


def _editing(which: str, said: str, made: Build) -> tuple[Phrase, ...]:
    """The same replacement, said before the file and after it."""
    change = f"replace/change {which} OLD with/by/to NEW"
    example = f'replace {said}"x" with "y"'
    return (
        Phrase(f"edit/update/modify/in FILE [:/,] [and/by] {change}", f"edit a.py: {example}", made),
        Phrase(f"{change} in [the file] FILE", f"{example} in a.py", made),
    )


GRAMMAR: Final[dict[str, tuple[Phrase, ...]]] = {
    "file.read": (
        Phrase(f"{_SHOW} [the contents of] FILES [again]", "read a.py and b.py", build.read),
        Phrase(f"{_SHOW} [the] [contents of the] file NAME", "show me the file notes", build.read),
        Phrase(f"{_SHOW} FILE [,] [from] lines RANGE", "read a.py lines 10-20", build.read),
        Phrase(f"{_SHOW} lines RANGE {_FROM}", "show lines 10 to 20 of a.py", build.read),
        Phrase(f"{_SHOW} [the] first N lines {_FROM}", "read the first 5 lines of a.py", build.read_first),
        Phrase(f"{_SHOW} FILE [,] [starting] from/at line N", "read a.py from line 40", build.read),
        Phrase(f"{_SHOW} line N {_FROM}", "read line 7 of a.py", build.read_one_line),
        Phrase("(what is / what's) in [the file] FILE", "what is in a.py?", build.read),
    ),
    "file.list": (
        Phrase("list/ls/dir [files/everything] [here]", "ls", _FLAT),
        Phrase("list/show [me] [all] [the] files [here]", "list all files", _FLAT),
        Phrase("list/ls (FOLDERS / [the] folder/directory DIRS)", "list src and tests", _FLAT),
        Phrase("list/show [me] [the] DIR folder/directory", "show the src folder", _FLAT),
        Phrase(f"list/show [me] [all] [the] files/everything {_IN}", "list the files in src", _FLAT),
        Phrase("show [me] the contents of [the] folder/directory DIR", "show the contents of the folder x", _FLAT),
        Phrase("(what is / what's) in [the] folder/directory DIR", "what is in the folder x?", _FLAT),
        Phrase("list/ls [all] [files/everything] recursively", "list all recursively", _DEEP),
        Phrase("list/ls (FOLDERS / [the] folder/directory DIRS) recursively", "list src recursively", _DEEP),
        Phrase(
            f"list [all] [the] files/everything {_IN} recursively",
            "list the files in src recursively",
            _DEEP,
        ),
        Phrase("recursively list FOLDERS", "recursively list src", _DEEP),
    ),
    "file.find": (
        Phrase(f"find/locate [me] [all] [the] [files] GLOB [files] [{_IN}]", "find *.py in src", build.find),
        Phrase(
            f"find [me] [all] [the] files named/called/matching/like GLOB [{_IN}]",
            "find files matching *.toml",
            build.find,
        ),
        Phrase(f"find [me] [all] [the] files named/called NAME [{_IN}]", "find files named Makefile", build.find),
        Phrase("which/what files match GLOB", "which files match *.md?", build.find),
        Phrase("where is [the file] GLOB", "where is conftest.py?", build.find),
    ),
    "code.search": (
        Phrase(f"{_SEARCH} TEXT {_WHERE}", "search for TODO in src", build.search()),
        Phrase(
            f"{_SEARCH} TEXT {_WHERE} (ignoring case / regardless of case)",
            'grep "todo" ignoring case',
            build.search(case="insensitive"),
        ),
        Phrase(f"{_SEARCH} {_REGEX} TEXT {_WHERE}", "grep the regex `def \\w+` in *.py", build.search(regex=True)),
        Phrase("search (everything / everywhere / the project) for TEXT", "search everything for TODO", build.search()),
        Phrase("search [in] PLACE for TEXT", "search src for TODO", build.search()),
        Phrase(
            "search [in] PLACE for [the] regex/pattern TEXT", "search src for the regex `a+`", build.search(regex=True)
        ),
        Phrase(
            f"find/show [me] [all] [the] uses/usages/occurrences/mentions of TEXT {_WHERE}",
            "find all uses of parse",
            build.search(),
        ),
        Phrase("where is TEXT used/mentioned/defined", "where is parse used?", build.search()),
    ),
    "shell.exec": (
        Phrase(f"{_RUN} COMMAND [{_AT}] [again]", "run `make test`", build.run()),
        Phrase(
            f"{_RUN} COMMAND [{_AT}] with a timeout of N seconds/second",
            "run `make` with a timeout of 90 seconds",
            build.run(),
        ),
        Phrase(
            f"{_RUN} COMMAND [{_AT}] with a timeout of N minutes/minute",
            "run `make` with a timeout of 5 minutes",
            build.run(60_000),
        ),
        Phrase("run/execute (it / that / that command) [again]", "run `make` then run it again", build.run_it),
        Phrase("$ COMMAND", "$ make test", build.run()),
    ),
    "process.start": (
        Phrase(f"{_RUN} COMMAND in the background [{_AT}]", "run `make serve` in the background", build.start),
        Phrase(f"start/launch COMMAND in the background [{_AT}]", "start `make serve` in the background", build.start),
    ),
    "process.list": (
        Phrase("list/show [me] [the] [running/background] processes", "list the processes", build.nothing),
    ),
    "process.status": (
        Phrase("[show] [me] [the] status of process ID", "status of process 4242", build.process),
        Phrase("is process ID [still] running", "is process 4242 still running?", build.process),
    ),
    "process.output": (
        Phrase("[show/read] [me] [the] output of process ID", "show the output of process 4242", build.process),
    ),
    "process.kill": (Phrase("kill/stop/end process ID", "kill process 4242", build.process),),
    "file.edit": (
        *_editing("[the text]", "", build.edit()),
        *_editing("the first [occurrence of]", "the first ", build.edit("first")),
        *_editing("all/every/each [occurrences/occurrence] [of]", "every ", build.edit("all")),
        Phrase(
            "edit/update/modify/in FILE [:/,] replace/change OLD with/by/to NEW everywhere",
            'edit a.py: replace "x" with "y" everywhere',
            build.edit("all"),
        ),
        Phrase(
            "replace/change OLD with/by/to NEW everywhere in [the file] FILE",
            'replace "x" with "y" everywhere in a.py',
            build.edit("all"),
        ),
        Phrase("delete/remove [the text] OLD from/in [the file] FILE", 'remove "x" from a.py', build.edit()),
    ),
    "file.write": (
        Phrase(f"{_MAKE} FILE [:/,] {_HOLDING} [:] CONTENT", 'create a.txt with the content "hello"', build.write),
        Phrase(
            f"{_MAKE} file [named/called] NAME [:/,] {_HOLDING} [:] CONTENT",
            'create a file notes with "hello"',
            build.write,
        ),
        Phrase(f"{_MAKE} [file] FILE [:] BLOCK", "write a.txt:\n```\nhello\n```", build.write),
        Phrase("write/save/put CONTENT to/into/in/as [the/a] [new] [file] FILE", 'write "hello" to a.txt', build.write),
        Phrase(
            "write/save/put (this / the following) to/into/in/as [the/a] [new] [file] FILE [:] BLOCK",
            "save this as a.txt:\n```\nhello\n```",
            build.write,
        ),
        Phrase("create/make/write an empty file [named/called] NAME", "create an empty file notes", build.write),
    ),
    "calculator": (
        Phrase("calculate/compute/evaluate EXPRESSION", "calculate sqrt(2) * 10", build.calculate),
        Phrase("(what is / what's / how much is) EXPRESSION", "what is 6 times 7?", build.calculate),
        Phrase("EXPRESSION", "2 + 2", build.calculate),
    ),
    "git.status": (
        Phrase("[show] [me] [the] [git] status", "git status", build.nothing),
        Phrase(
            "what (changed / has changed / is changed / did I change / have I changed)", "what changed?", build.nothing,
        ),
    ),
    "git.diff": (Phrase("[git] diff / show [me] [the/my] [git] diff/changes", "show me the diff", build.nothing),),
    "git.log": (
        Phrase(
            "git log / show [me] [the] [git] log/history / [show] [me] [the] last/latest/recent commits",
            "show the last commits",
            build.nothing,
        ),
    ),
    "system.info": (
        Phrase("[show] [me] [the] system info/information", "system info", build.nothing),
        Phrase("what (system / machine / os / operating system) is this", "what system is this?", build.nothing),
    ),
    "ask.user": (
        Phrase("ask [me] QUOTED", 'ask me "Which colour?"', build.ask),
        Phrase(
            "ask [me] QUOTED with [the] options/answers QUOTES",
            'ask me "Which?" with the options "red", "blue"',
            build.ask,
        ),
    ),
    "output.read": (
        Phrase(
            "read/show [me] [the] [full/whole] output of call ID [from line N]",
            "read the output of call abc-1",
            build.output,
        ),
    ),
}
"""By the tool that is called."""
