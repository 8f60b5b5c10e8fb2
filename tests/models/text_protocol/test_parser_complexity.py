"""Parsing takes linear time, measured in characters scanned, not in seconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, cast

import pytest

from holdfast.models.text_protocol import parser, stream, syntax
from holdfast.models.text_protocol.parser import parse
from tests.soak import rounds, some

from .parsing import in_steps, previewed
from .strategies import EDIT, WRITE

SIZE = rounds(200_000, 1_000_000)
MODULES: tuple[ModuleType, ...] = (syntax, parser, stream)
HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "closing brackets": lambda n: "]" * n,
    "backticks": lambda n: "`" * n,
    "quotations": lambda n: "```a``` " * (n // 8),
    "runs of all lengths": lambda n: "".join("`" * size + " " for size in range(3, int((2 * n) ** 0.5))),
    "fences that do not close": lambda n: "```\n" + "`` `\n    ```\n" * (n // 13),
    "tildes": lambda n: "> " * (n // 4) + "x " + "~~~ " * (n // 8),
    "blanks in a fence": lambda n: "```\n" + " " * n,
    "runs in a fence": lambda n: "````\n" + "``` " * (n // 4),
    "equals signs": lambda n: "=" * n,
    "frames": lambda n: "=== tool_result: " * (n // 17),
    "opened inlines": lambda n: "[read_file: " * (n // 12),
    "opened inlines, a line": lambda n: "[read_file: " * (n // 12) + "\n",
    "unbalanced inlines, a line": lambda n: "[read_file: [ ] " * (n // 16) + "\n",
    "deep inline": lambda n: "[read_file: " + "[" * (n // 2) + "]" * (n // 2) + "\n",
    "deep inline, unbalanced": lambda n: "[read_file: " + "[" * n + "\n",
    "names that do not end": lambda n: "[call: " * (n // 7) + "\n",
    "a name that does not end": lambda n: "[call: " + "a" * n,
    "opened blocks": lambda n: "[write_file]" * (n // 12),
    "opened blocks of all kinds": lambda n: "[write_file] [edit_file] [search_code] [call: a]\n" * (n // 50),
    "stray closing tags": lambda n: "[/write_file]" * (n // 13),
    "opened searches": lambda n: "[search_code] a\n" * (n // 16),
    "a search that stays open": lambda n: "[search_code] " + "word\n" * (n // 5),
    "nested blocks": lambda n: WRITE.replace("{}", "[write_file]\n[/write_file]\n" * (n // 27)),
    "nested edits": lambda n: EDIT.replace("{}", "[edit_file]\n---search---\n[/edit_file]\n" * (n // 39)),
    "blocks opened in a body": lambda n: WRITE.replace("{}", "[write_file]\n" * (n // 13)),
    "blanks after a tag in a body": lambda n: WRITE.replace("{}", "[write_file]" + " " * n),
    "a header without an end": lambda n: "[edit_file]\n" + "path: a\n---\n" * (n // 12),
    "a header of one line": lambda n: "[edit_file]" + "path " * (n // 5),
    "delimiters": lambda n: EDIT.replace("{}", "---search---\n" * (n // 13)),
    "dashes": lambda n: "[edit_file]\npath: a\n" + "---a" * (n // 4) + "\n[/edit_file]",
    "conflicts": lambda n: "[edit_file]\npath: a\n" + "<<<<<<<\n=======\n" * (n // 16) + "[/edit_file]",
    "closing tags in a string": lambda n: '[call: a]{"b": "' + "[/call]" * (n // 7) + '"}[/call]',
    "strings": lambda n: '[call: a]{"b": ["' + '", "' * (n // 4) + '"]}[/call]',
    "a string that stays open": lambda n: '[call: a]{"b": "' + "\\\\" * (n // 2),
    "braces": lambda n: "[call: a]" + "{" * n,
    "calls cut in strings": lambda n: '[call: a]{"[/call]' * (n // 18),
    "blanks after a call": lambda n: "[call: a]" + " " * n + "{}" + " " * n,
    "calls": lambda n: "[read_file: src/a.py]\n" * (n // 22),
    "markers of lists": lambda n: "- " * (n // 4) + "1. " * (n // 6) + "~~~",
    "numbers": lambda n: "1" * n + "~~~",
    "marks of quotations": lambda n: ">" * n + "```\n> ```",
    "quoted runs in a fence": lambda n: "> ```\n" + "> > ```\n" * (n // 8),
    "marks of quotations in a fence": lambda n: "```\n" + ">" * n,
    "fences in lists": lambda n: "- ~~~\n  ~~~\n" * (n // 12),
    "closing tags in lines": lambda n: WRITE.replace("{}", "a [/write_file] b\n" * (n // 18)),
    "blanks behind a closing tag": lambda n: WRITE.replace("{}", "a [/write_file]" + " " * n),
    "a block whose end is not clear": lambda n: WRITE.replace("{}", "a [/write_file] " + "[/write_" * (n // 8)),
    "blanks behind an empty file": lambda n: "[write_file: a]" + "\n" * n + "---content--",
    "empty files": lambda n: "[write_file: a]\n" * (n // 16),
    "labels": lambda n: "[edit_file]\npath: a\n" + "old content:\n" * (n // 13) + "[/edit_file]",
    "an edit that stays open": lambda n: EDIT.partition("new")[0].replace("{}", "a") + "b\n" * (n // 2),
    "blanks in an edit that stays open": lambda n: EDIT.partition("new")[0].replace("{}", " \n" * (n // 2)) + " " * n,
    "calls that stay open": lambda n: "[call: a]{}\n" * (n // 12),
    "a call that stays open": lambda n: '[call: a]{"b": "' + "[/call]" * (n // 7) + '"}',
    "delimiters in names": lambda n: "[write_file]\npath: " + "a---content---" * (n // 14) + "\n[/write_file]",
}


class Counter:
    """Stands in for a pattern: counts scanned characters and the text concatenated for scanning."""

    work = 0
    _last: str = ""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def search(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._seen(text, at, self._pattern.search(text, at))

    def match(self, text: str, at: int = 0, end: int | None = None) -> re.Match[str] | None:
        end = len(text) if end is None else end
        return self._seen(text, at, self._pattern.match(text, at, end), missed=end)

    def finditer(self, text: str, at: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
        end = len(text) if end is None else end
        for found in self._pattern.finditer(text, at, end):
            yield found
            self._seen(text, at, found)
            at = found.end()
        self._seen(text, at, None, missed=end)

    def split(self, text: str) -> list[str]:
        self._seen(text, 0, None)
        return self._pattern.split(text)

    def _seen(self, text: str, at: int, found: re.Match[str] | None, missed: int | None = None) -> re.Match[str] | None:
        if text is not Counter._last:
            Counter.work += len(text)
            Counter._last = text
        until = found.end() if found else len(text) if missed is None else missed
        Counter.work += 1 + max(0, until - at)
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    for module in MODULES:
        names: dict[str, Any] = vars(module)
        for name, value in list(names.items()):
            if isinstance(value, re.Pattern):
                monkeypatch.setattr(module, name, Counter(cast(re.Pattern[str], value)))
            elif name in ("_HEADER", "_OWN") and isinstance(value, dict):
                patterns = cast(dict[str, re.Pattern[str]], value)
                monkeypatch.setattr(module, name, {key: Counter(pattern) for key, pattern in patterns.items()})

    def count(work: Callable[[], object]) -> int:
        Counter.work = 0
        work()
        return Counter.work

    return count


@pytest.mark.spec("M3")
@pytest.mark.parametrize("kind", some(HOSTILE, 20))
def test_a_hostile_reply_is_parsed_in_linear_time(kind: str, counted: Callable[[Callable[[], object]], int]) -> None:
    text = HOSTILE[kind](SIZE)
    assert len(text) > SIZE * 0.9
    work = counted(lambda: parse(text))
    assert len(text) / 2 < work < 10 * len(text)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_stream_is_previewed_in_linear_time(
    kind: str, counted: Callable[[Callable[[], object]], int]
) -> None:
    text = HOSTILE[kind](SIZE // 25)
    assert counted(lambda: previewed(in_steps(text, 4))) < 25 * len(text)
