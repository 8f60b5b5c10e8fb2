"""Commands without backticks: only those in which every word is plain to see, so that no sentence is taken for one."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from holdfast.models.operator.literals import Masked
from holdfast.models.operator.words import ENGLISH, FOLDERS, PROGRAMS, TARGETS, TEXT_OPTIONS, UNSURE

_OPTION: Final = re.compile(r"--?([A-Za-z][\w-]*)(?:=[\w./:@%+~^-]+)?")
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=([\w./:@%+~^-]+)")
_PATH: Final = re.compile(r"[\w./@+*~-]+(?:::[\w\[\]-]+)*")
_DATE: Final = re.compile(r"[\d./:-]*\d[\d./:-]*")
_VALUED: Final = re.compile(r"-[A-Za-z]")
_KEPT_IN: Final = frozenset({"bin", "scripts", "script", "tools"})
_UNSAFE: Final = re.compile(r"[`$\\!]")


def bare_command(found: str, masked: Masked) -> str | None:
    """The command as it was written; None if any word of it might be meant for the reader."""
    words = found.split(" ")
    if not (words[0] in PROGRAMS or _is_program(words[0])):
        return None
    for before, word in pairwise(words):
        if not (_is_plain(word, before) or _is_text(word, before, masked)):
            return None
    return masked.unmasked(found)


def is_path(word: str) -> bool:
    """Whether it is written as a path, and no part of it is a word of a sentence."""
    if not _PATH.fullmatch(word) or not ("/" in word or "." in word) or _DATE.fullmatch(word):
        return False
    parts = word.partition("::")[0].split("/")
    dotted = [part for part in parts if part not in (".", "..")]
    if any(".." in part or part.endswith(".") for part in dotted) or is_said(word):
        return False
    return word[0] in "./~" or "." in parts[-1] or not FOLDERS.isdisjoint(parts)  # and not "yes/no"


def is_said(word: str) -> bool:
    """Whether a word, or a part of one with signs in it, belongs to a sentence."""
    lower = word.lower()
    return any(part in UNSURE or (len(part) > 1 and part in ENGLISH) for part in (lower, *re.split(r"[/.:=]+", lower)))


def _is_program(word: str) -> bool:
    """A path that looks like one: "./build", "bin/serve", "scripts/run.sh", and not "him/her"."""
    *folders, name = word.split("/")
    return bool(folders) and is_path(word) and (word[0] in "./~" or not _KEPT_IN.isdisjoint(folders) or "." in name)


def _is_plain(word: str, before: str) -> bool:
    if word in TARGETS or word in PROGRAMS:
        return True
    if word.isdecimal() and word.isascii():
        return _VALUED.fullmatch(before) is not None
    if (option := _OPTION.fullmatch(word)) is not None:
        return option[1].lower() not in ENGLISH | UNSURE and not is_said(word.partition("=")[2])
    if (setting := _SETTING.fullmatch(word)) is not None:
        return not is_said(setting[1])
    return is_path(word)


def _is_text(word: str, before: str, masked: Masked) -> bool:
    """A text in quotes that a shell reads as we do, after an option that takes one."""
    piece = masked.piece(word)
    if piece is None or piece.kind != "quote" or before not in TEXT_OPTIONS:
        return False
    return piece.raw[0] in "\"'" and piece.raw[0] not in piece.text and not _UNSAFE.search(piece.text)
