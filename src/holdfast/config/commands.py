"""Which files of a project a command line runs, as far as its text tells: nothing is expanded and nothing is run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

_DYNAMIC: Final = r"[$*?{}()<>`~]|://"
_SEPARATORS: Final = r"&&|\|\||[;|&\n()`]"
_SCRIPT: Final = r"(?i)\.(?:[cm]?[jt]sx?|sh|bash|zsh|fish|py|rb|pl|php|lua|r|exs|ps1|bat|cmd)$"
_WORD: Final = r"(?<![\w$~}./@+-])[\w.@+-][\w./@+-]*"
_HERE: Final = r"(?i:[\w.]*(?:pwd|cwd|workspace|project|root|repo|dir|here|top|base)\w*)"
_ROOT: Final = re.compile(
    rf"(?P<quote>\"?)\$(?:\{{(?:env:)?{_HERE}(?::[^}}\n]{{0,80}})?\}}|{_HERE}"
    r"|\((?:pwd|git rev-parse --show-toplevel|dirname [^()\n]{0,80})\))(?P=quote)/"
)
"""Ways to write the folder of the project, or of the file that is read."""
_STARTERS: Final = (
    r"exec|eval|env|command|builtin|time|timeout|nice|nohup|setsid|stdbuf|sudo|xargs|run|cross-env|direnv|uvx?|poetry|pipenv"
    r"|npx|bunx|npm|pnpm|yarn|dlx|bundle|then|do|else|elif|if|while|until|!|\{|\d+[smh]?"
)
"""Words before the program that is run."""
_INTERPRETERS: Final = (
    r"(?:ba|z|da|k|fi)?sh|source(?:_env(?:_if_exists)?)?|dotenv(?:_if_exists)?|\.|python[\d.]*|py|ruby|perl|php|lua|rscript"
)
_OF_JAVASCRIPT: Final = r"node(?:js)?|deno|bun|tsx|ts-node"
_IN_FOLDER: Final = r"cd|pushd|--directory|--cwd|--prefix|--dir|--project|-C"
_FOLDERS: Final = 8
_DEPTH: Final = 3
_LONG: Final = 4096
"""Commands that are longer are split at blanks, which takes no time."""


def without_root(text: str) -> str:
    """The text with names that are relative to the project, where they said so by a variable."""
    return re.sub(_ROOT, "", text)


def is_plain(name: str) -> bool:
    """Whether a name stands for itself."""
    return re.search(_DYNAMIC, name) is None


def is_script(name: str) -> bool:
    """Whether a word is the name of a file that may be run, by its look."""
    return ("/" in name or re.search(_SCRIPT, name) is not None) and is_plain(name)


def files_of(module: str) -> tuple[str, str]:
    """Where `python -m` looks for a module."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def mentioned_in(text: str) -> Iterator[str]:
    """Every word that may be a path, wherever it stands."""
    for word in re.findall(_WORD, without_root(text)):
        if "/" in word or "." in word[1:]:
            yield word


def run_by(text: str, depth: int = 0) -> Iterator[str]:
    """The files a script or command line runs: its programs, and what it hands to interpreters."""
    folders = [""]
    plain = without_root(re.sub(r"\\\r?\n", " ", text))
    for part in re.split(_SEPARATORS, plain):
        for name in _run_by(_words(part), folders, depth):
            yield from (posixpath.join(folder, name) for folder in folders)


def _words(part: str) -> list[str]:
    if len(part) <= _LONG:
        import shlex

        try:
            return shlex.split(part)
        except ValueError:
            pass
    return part.split()


def _run_by(words: list[str], folders: list[str], depth: int) -> Iterator[str]:
    interpreter = option = ""
    started = False
    for written in words:
        word = written.strip("'\"")
        last, option = option, word if word.startswith("-") or word in ("cd", "pushd") else ""
        name = word.lower() if word[:1] != "/" else word.rpartition("/")[2].lower()
        if re.fullmatch(_IN_FOLDER, last):
            if len(folders) < _FOLDERS and is_plain(word):
                folders.append(word)
        elif last == "-m" and re.match("py", interpreter):
            yield from files_of(word)
            return
        elif re.search(r"\s", word):
            if depth < _DEPTH:
                yield from run_by(word, depth + 1)
        elif option or re.match(r"[\w-]+=", word):
            continue
        elif not started and re.fullmatch(f"{_INTERPRETERS}|{_OF_JAVASCRIPT}", name):
            interpreter = name
        elif not started and re.fullmatch(_STARTERS, name):
            continue
        elif started:
            if re.search(_SCRIPT, word) and is_plain(word):
                yield word
        elif interpreter or is_script(word):
            started = True
            if word and is_plain(word):
                yield word
                if re.fullmatch(_OF_JAVASCRIPT, interpreter) and "." not in word.rpartition("/")[2]:
                    yield from (f"{word}{ending}" for ending in (".js", ".cjs", ".mjs", ".ts", "/index.js"))
        else:
            return
