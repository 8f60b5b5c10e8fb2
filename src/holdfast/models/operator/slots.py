"""Slots of the operator's grammar: the pattern each accepts, and the value it yields."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from holdfast.contract.errors import MemoryRefused
from holdfast.contract.memory import check_namespace
from holdfast.models.requests.masked_text import BLOCK, END, INLINE, IT, TRACE, MaskedText, Slot, flag_slots
from holdfast.models.requests.words import EXTENSIONLESS, word_set
from holdfast.models.requests.words import FOLDERS as _COMMON_FOLDERS
from holdfast.tools.calculator import CONSTANTS, FUNCTIONS, MAX_EXPRESSION

_PLACEHOLDERS: Final = f"{INLINE}{BLOCK}{END}{IT}{TRACE}"
_LITERAL: Final = f"{INLINE}\\d+{END}"
_BLOCK: Final = f"{BLOCK}\\d+{END}"
_QUOTED: Final = f"(?:{_LITERAL}|{_BLOCK})"
_NAME_WORD: Final = f"(?:{_LITERAL}|[^\\s{_PLACEHOLDERS},;:\"'`“”‘’«»„()<>|&$!?\\\\]+)"
_GLOB_WORD: Final = f"(?:{_LITERAL}|[^\\s{_PLACEHOLDERS};:\"'`“”‘’«»„()<>|&$!\\\\]+)"
_IT: Final = "(?:it|that file|this file|the same file|that|this)"
_FILE: Final = f"(?:{_IT}|{_NAME_WORD})"
_AND: Final = "(?:, and |, | and )"

_URL: Final = r"(?i:https?)://[^\s<>\"'`|\\]+[^\s<>\"'`|\\.,;:!?)\]]"
_MAX_QUERY_WORDS: Final = 15
_NOT_IN_QUERIES: Final = frozenset({"and", "but", "if", "not", "please", "then", "unless", "without"})
"""Words that may begin another request or a condition. A query with one of them must be quoted."""
_GLOB: Final = re.compile(r"[*?\[{]")
_NUMBER: Final = re.compile(r"[0-9.]+")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_PROGRAMS: Final = word_set(
    "bash bun cargo cat cmake composer curl deno df docker dotnet du echo gcc git gradle java javac jest jq kubectl ls "
    "make mkdir mvn mypy node nox npm npx perl php pip pip3 pnpm poetry pre-commit printf pwd pyright pytest python "
    "python3 rg ruby ruff rustc sh tox uname uniq uv uvx wc whoami yarn"
)
"""A command that starts with one of these needs no backticks if all its other words are plain arguments."""
_TARGETS: Final = word_set(
    "add analyze app audit bench benchmark branch build bundle check checkout clean commit compile compose config "
    "coverage deploy dev develop diff dist doc docs e2e fetch fmt format freeze generate images init install "
    "integration lib lint log login main master migrate origin outdated pack package preview prune ps publish "
    "pull push release remote render report restore run serve setup show smoke src stash status sync tag test "
    "tests tree typecheck types unit update upgrade vendor venv verify version vet web"
)
"""Plain arguments of such commands: targets, subcommands and names common to these programs."""
_TEXT_OPTIONS: Final = word_set("-m -k -c -e -am --message --grep --title --body")
"""Options of such commands that take a quoted text."""
_ENGLISH: Final = word_set(
    "a about after again all also an and any are as at away be because before but by can carefully don't don’t "
    "every everything except first for from he her here him his how i if in instead into is it its later me my "
    "never no not now of off on once only or otherwise our over please quickly safely she should so soon sure "
    "than that the them then there these they this those till time times to too twice unless until up us was what "
    "when whenever where whether while why with without would yes you your"
)
"""Words of an English sentence, which are never names."""
_NON_COMMITTAL: Final = word_set(
    # retractions
    "abbrechen abort aborted actually aldri aldrig annule annuleer annuler annulla anuluj aspetta attends avbryt "
    "avoid can't cancel cancela cancelar cancele canceled cancelled cannot cant czekaj dont espera fake forget "
    "haha halt hayır hold ignore ikke inte iptal jamais jamás jk joking just kein keine kidding lol "
    "mai mistake n/a nada nah nao nay nee nei nein neither nej nevermind nicht nie niemals niente niet nm nobody "
    "non none nooit nope nor nothing nunca nvm não oops pas pause prank quit refrain rien scratch sike skip sorry "
    "stop stopp undo w/o wacht wait warte whatever whoops won't wont wrong не нет никогда отмена подожди стоп いいえ "
    "だめ やめて 不 不要 别 取消 "
    # postponements
    "afternoon afterwards amanha amanhã anytime april august bald bientôt dawn december demain depois domani dopo "
    "dusk evening eventually february friday gleich heute hoje hour hours hoy imorgon january july june jutro "
    "luego manana march may mañana midnight minute minutes moment monday month months morgen morning night noon "
    "november october oggi później saturday second seconds senare september someday sometime sonra spaeter später "
    "straks sunday thursday today tomorrow tonight tuesday wednesday week weekend weeks yarın year years "
    "yesterday yet завтра потом сегодня 以后 後で 明天 明日 "
    # hedges
    "belki else eventuell ever falls forse hopefully hypothetically ideally idk kanske kanskje kinda likely maybe "
    "mayhaps misschien moze może perchance perhaps peut-être peutetre possibly presumably probably quizas quizá "
    "quizás somehow sometimes sorta supposedly talvez theoretically theory vielleicht wenn womöglich если может "
    "也许 可能 多分 "
    # indefinite pronouns
    "anybody anyone anything both cons each everybody everyone pros some somebody someone "
    "something"
)
"""Words that retract, postpone or hedge a request, or mean everything; they are never names."""
_FILES: Final = EXTENSIONLESS | word_set("README LICENSE LICENCE COPYING CHANGELOG CONTRIBUTING")
"""Files recognised without a dot or slash in their name."""
_FOLDERS: Final = _COMMON_FOLDERS | word_set(
    "api apps assets backend bench build client config dist examples frontend libs packages server spec specs static "
    "templates tools vendor web www"
)
"""Folders recognised without a dot or slash in their name."""
_NOT_FOLDERS: Final = word_set(
    "a all an and any background bash case commands debug detail docker everything files folders foreground full here "
    "it me my nothing of off on order out parallel processes production python quiet reverse secret series sh silence "
    "some that the them these this those time to tools turn up us verbose your"
)
"""Words that may follow "in" without naming a folder."""


# Names


def _is_name(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text


def _file(found: str, masked: MaskedText) -> str | None:
    if (literal := masked.literal(found)) is not None:
        return literal.text if _is_name(literal.text) else None
    if re.fullmatch(_IT, found, re.IGNORECASE):
        return IT
    return found if found in _FILES or _looks_like_a_file(found) else None


def _looks_like_a_file(word: str) -> bool:
    if "://" in word or _GLOB.search(word) or _NUMBER.fullmatch(word) or word[0] == "-":
        return False
    said = "/" in word and "." not in word and _is_sentence_word(word)  # such as "and/or"
    return ("." in word or "/" in word) and word[-1] not in "./" and word.strip("./~") != "" and not said


def _name(found: str, masked: MaskedText) -> str | None:
    """Any word, since the phrase says that it is a file."""
    literal = masked.literal(found)
    word = found if literal is None else literal.text
    if literal is None and (_GLOB.search(word) or _is_sentence_word(word)):
        return None
    return word if _is_name(word) and word[0] != "-" else None


def _dir(found: str, masked: MaskedText) -> str | None:
    """Any word, since the phrase says that it is a folder."""
    if (literal := masked.literal(found)) is not None:
        return literal.text if _is_name(literal.text) else None
    if (
        found[0] == "-"
        or "://" in found
        or _GLOB.search(found)
        or found.lower() in _NOT_FOLDERS
        or _is_sentence_word(found)
    ):
        return None
    return found


def _folder(found: str, masked: MaskedText) -> str | None:
    """A name that can only be a folder."""
    known = masked.literal(found) is not None or "/" in found or found[0] == "." or found in _FOLDERS
    return _dir(found, masked) if known else None


def _list_of(one: Callable[[str, MaskedText], str | None]) -> Callable[[str, MaskedText], list[str] | None]:
    def read(found: str, masked: MaskedText) -> list[str] | None:
        values = [one(item, masked) for item in re.split(_AND, found)]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    return read


def _place(found: str, masked: MaskedText) -> str | None:
    plain = masked.literal(found) is None
    return found if plain and (_GLOB.search(found) or _looks_like_a_file(found)) else _folder(found, masked)


def _glob(found: str, masked: MaskedText) -> str | None:
    literal = masked.literal(found)
    word = found if literal is None else literal.text
    named = literal is None and word[0] != "." and _looks_like_a_file(word)
    return word if _is_name(word) and (named or _GLOB.search(word)) else None


def _id(found: str, masked: MaskedText) -> str | None:
    """Ids made by holdfast contain a digit; others must be quoted."""
    if (literal := masked.literal(found)) is not None:
        return literal.text if _ID.fullmatch(literal.text) else None
    return found if re.search("[0-9]", found) and not _is_sentence_word(found) else None


def _namespace(found: str, masked: MaskedText) -> str | None:
    literal = masked.literal(found)
    name = found if literal is None else literal.text
    if literal is None and _is_sentence_word(name):
        return None
    try:
        return check_namespace(name)
    except MemoryRefused:
        return None


# The web


def _url(found: str, masked: MaskedText) -> str | None:
    literal = masked.literal(found)
    word = found if literal is None else literal.text
    return word if re.fullmatch(_URL, word) else None


def _query(found: str, masked: MaskedText) -> str | None:
    """A quoted text, or a few words that ask for nothing else."""
    if (literal := masked.literal(found)) is not None:
        return literal.text if _is_name(literal.text) else None
    words = found.lower().split()
    plain = len(words) <= _MAX_QUERY_WORDS and not any(word in _NON_COMMITTAL | _NOT_IN_QUERIES for word in words)
    return found if plain else None


# Texts and numbers


def _text(found: str, masked: MaskedText) -> str | None:
    if (literal := masked.literal(found)) is not None:
        return literal.text if _is_name(literal.text) else None
    return None if found.lower() in _ENGLISH else found


def _quoted(found: str, masked: MaskedText) -> str:
    literal = masked.literal(found)
    return "" if literal is None else literal.text


def _content(found: str, masked: MaskedText) -> str | None:
    """A block is whole lines, so its content ends with a newline."""
    literal = masked.literal(found)
    if literal is None:
        return None
    return f"{literal.text}\n" if literal.kind == "block" and literal.text else literal.text


def _quotes(found: str, masked: MaskedText) -> list[str]:
    return [_quoted(mark, masked) for mark in re.findall(_LITERAL, found)]


def _number(found: str, masked: MaskedText) -> int | None:
    return int(found) or None


def _range(found: str, masked: MaskedText) -> tuple[int, int] | None:
    first, last = (int(number) for number in re.findall("[0-9]+", found))
    return (first, last) if 1 <= first <= last else None


# Arithmetic

_SPOKEN_OPERATORS: Final = {
    "plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/", "over": "/",
    "to the power of": "^", "modulo": "%", "mod": "%", "×": "*", "·": "*", "÷": "/", "−": "-",
}  # fmt: skip
_SPOKEN_OPERATOR: Final = re.compile(
    "|".join(rf"\b{word}\b" if word.isascii() else word for word in _SPOKEN_OPERATORS), re.IGNORECASE
)
_NOT_ARITHMETIC: Final = re.compile(r"[0-9][a-z]|[^a-z0-9\s.+*/^%(),-]")
_ARITHMETIC_NODES: Final = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


def _expression(found: str, masked: MaskedText) -> str | None:
    """Return arithmetic in the calculator's notation, with spoken operators as symbols; None for other text or a bare
    number."""
    literal = masked.literal(found)
    text = found if literal is None else literal.text
    signs = (
        _SPOKEN_OPERATOR.sub(lambda said: _SPOKEN_OPERATORS[said[0].lower()], text).strip().removesuffix("=").rstrip()
    )
    names = set(re.findall("[a-z][a-z0-9]*", signs))
    if len(signs) > MAX_EXPRESSION or _NOT_ARITHMETIC.search(signs) or not names <= FUNCTIONS.keys() | CONSTANTS.keys():
        return None
    try:
        tree = ast.parse(signs.replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    nodes = [node for node in ast.walk(tree.body) if isinstance(node, ast.expr)]
    works = any(isinstance(node, ast.BinOp | ast.Call) for node in nodes)
    return signs if works and all(map(_is_arithmetic, nodes)) else None


def _is_arithmetic(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and bool(node.args)
    return isinstance(node, _ARITHMETIC_NODES)


# Commands without backticks: accepted only if every word is unambiguous, so that a sentence never runs as a command

_OPTION: Final = re.compile(r"--?([A-Za-z][\w-]*)(?:=[\w./:@%+~^-]+)?")
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=([\w./:@%+~^-]+)")
_PATH: Final = re.compile(r"[\w./@+*~-]+(?:::[\w\[\]-]+)*")
_DATE: Final = re.compile(r"[\d./:-]*\d[\d./:-]*")
_SHORT_OPTION: Final = re.compile(r"-[A-Za-z]")
_SCRIPT_FOLDERS: Final = frozenset({"bin", "scripts", "script", "tools"})
_UNSAFE: Final = re.compile(r"[`$\\!]")


def _command(found: str, masked: MaskedText) -> str | None:
    """Return the command as written; None if any word may be part of a sentence instead."""
    if (literal := masked.literal(found)) is not None:
        return literal.text if literal.text.strip() else None
    words = found.split(" ")
    if not (words[0] in _PROGRAMS or _is_program(words[0])):
        return None
    plain = all(
        _is_plain_argument(word, before) or _is_quoted_text(word, before, masked) for before, word in pairwise(words)
    )
    return masked.unmask(found) if plain else None


def _is_path(word: str) -> bool:
    """Whether the word is written as a path and contains no word of a sentence."""
    if not _PATH.fullmatch(word) or not ("/" in word or "." in word) or _DATE.fullmatch(word):
        return False
    parts = word.partition("::")[0].split("/")
    dotted = [part for part in parts if part not in (".", "..")]
    if any(".." in part or part.endswith(".") for part in dotted) or _is_sentence_word(word):
        return False
    return word[0] in "./~" or "." in parts[-1] or not _FOLDERS.isdisjoint(parts)  # and not "yes/no"


def _is_sentence_word(word: str) -> bool:
    """Whether the word, or a part between `/`, `.`, `:` or `=`, belongs to a sentence."""
    parts = (word.lower(), *re.split(r"[/.:=]+", word.lower()))
    return any(part in _NON_COMMITTAL or (len(part) > 1 and part in _ENGLISH) for part in parts)


def _is_program(word: str) -> bool:
    """Whether the word looks like a path to a program: "./build", "bin/serve", "scripts/run.sh"; not "him/her"."""
    *folders, name = word.split("/")
    return (
        bool(folders)
        and _is_path(word)
        and (word[0] in "./~" or not _SCRIPT_FOLDERS.isdisjoint(folders) or "." in name)
    )


def _is_plain_argument(word: str, before: str) -> bool:
    if word in _TARGETS or word in _PROGRAMS:
        return True
    if word.isdecimal() and word.isascii():
        return _SHORT_OPTION.fullmatch(before) is not None
    if (option := _OPTION.fullmatch(word)) is not None:
        return option[1].lower() not in _ENGLISH | _NON_COMMITTAL and not _is_sentence_word(word.partition("=")[2])
    if (setting := _SETTING.fullmatch(word)) is not None:
        return not _is_sentence_word(setting[1])
    return _is_path(word)


def _is_quoted_text(word: str, before: str, masked: MaskedText) -> bool:
    """Whether it is a quoted text that a shell reads the same way, after an option that takes one."""
    literal = masked.literal(word)
    if literal is None or literal.kind != "quote" or before not in _TEXT_OPTIONS:
        return False
    return literal.raw[0] in "\"'" and literal.raw[0] not in literal.text and not _UNSAFE.search(literal.text)


_SKILL: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def _skill(found: str, masked: MaskedText) -> str | None:
    literal = masked.literal(found)
    word = found if literal is None else literal.text
    return word if _SKILL.fullmatch(word) and (literal is not None or not _is_sentence_word(word)) else None


SLOTS: Final = {
    "SKILL": Slot(_NAME_WORD, _skill),
    "FILE": Slot(_FILE, _file),
    "FILES": Slot(f"{_FILE}(?:{_AND}{_FILE})*", _list_of(_file)),
    "NAME": Slot(_NAME_WORD, _name),
    "FOLDER": Slot(_NAME_WORD, _folder),
    "FOLDERS": Slot(f"{_NAME_WORD}(?:{_AND}{_NAME_WORD})*", _list_of(_folder)),
    "DIR": Slot(_NAME_WORD, _dir),
    "DIRS": Slot(f"{_NAME_WORD}(?:{_AND}{_NAME_WORD})*", _list_of(_dir)),
    "NAMESPACE": Slot(_NAME_WORD, _namespace),
    "PLACE": Slot(_GLOB_WORD, _place),
    "GLOB": Slot(_GLOB_WORD, _glob),
    "TEXT": Slot(_NAME_WORD, _text),
    "QUOTED": Slot(_QUOTED, _quoted),
    "CONTENT": Slot(_QUOTED, _content),
    "OLD": Slot(_QUOTED, _quoted),
    "NEW": Slot(f"(?:{_QUOTED}|nothing)", _quoted),
    "QUOTES": Slot(f"{_LITERAL}(?:(?:, or |, and |, | and | or ){_LITERAL})*", _quotes),
    "BLOCK": Slot(_BLOCK, _content),
    "COMMAND": Slot(f"(?:{_LITERAL}|{_BLOCK}|[^{BLOCK}{IT}{TRACE}]+?)", _command),
    "EXPRESSION": Slot(f"(?:{_LITERAL}|[^{_PLACEHOLDERS}]+?)", _expression),
    **dict.fromkeys(("N", "LINE", "COUNT"), Slot(r"[0-9]{1,9}", _number)),
    "RANGE": Slot(r"[0-9]{1,9}(?: ?(?:-|–|\.\.) ?| to | through )[0-9]{1,9}", _range),
    "URL": Slot(f"(?:{_LITERAL}|{_URL})", _url),
    "QUERY": Slot(f"(?:{_LITERAL}|[^{_PLACEHOLDERS},;:\n]+?)", _query),
    "ID": Slot(f"(?:{_LITERAL}|{_ID.pattern})", _id),
    **flag_slots(
        (
            "all",
            "each",
            "every",
            "everywhere",
            "first",
            "recursively",
            "regex",
            "pattern",
            "regular",
            "links",
            "button",
            "link",
            "tab",
            "checkbox",
        )
    ),
    **flag_slots(("ignoring", "regardless", "minute", "minutes", "hour", "hours", "day", "days", "namespaces")),
    **flag_slots(("hourly", "daily", "weekly", "monthly")),
}
