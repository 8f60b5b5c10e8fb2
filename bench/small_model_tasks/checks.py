"""What counts as a right answer. Every check returns "" or one sentence that says why the answer is wrong."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from .mentions import mentions
from .project import snapshot

Kind = Literal["definition", "usage", "configuration", "edit", "git"]

_DENIAL: Final = re.compile(r"\b(?:no|not|nowhere|never|none|only|unused)\b|n't\b", re.IGNORECASE)
_YES: Final = re.compile(r"\W*yes\b", re.IGNORECASE)
_LINE_NUMBER: Final = re.compile(
    r"\.[a-z]{2,4}:\d+(?::\d+)?|\blines? \d+(?:\s?[-–]\s?\d+)?|^\s*\d{1,3}[:.)|]\s+(?=\S)", re.IGNORECASE | re.MULTILINE
)
_FUNCTIONS: Final = (
    abs,
    all,
    any,
    bool,
    dict,
    enumerate,
    float,
    int,
    isinstance,
    len,
    list,
    max,
    min,
    range,
    round,
    str,
)
_BUILTINS: Final = {function.__name__: function for function in (*_FUNCTIONS, Exception, TypeError, ValueError)}


def has_token(text: str, token: str) -> bool:
    return re.search(rf"(?<!\w)(?<!\d\.){re.escape(token)}(?!\w|\.\d)", text, re.IGNORECASE) is not None


class Definition(msgspec.Struct, frozen=True, tag=True):
    """The answer names the file, and no other file as the place."""

    file: str
    identifier: str
    """What the file defines; the test of the tasks looks it up."""

    def check(self, answer: str, paths: Collection[str]) -> str:
        named = False
        for mention in mentions(answer, paths):
            if mention.files == (self.file,):
                named = named or not mention.follows_use
            elif self.file not in mention.files and not mention.is_use:
                return f"The answer names {mention.text}, which is not the place."
        return "" if named else f"The answer does not name {self.file}."


class Site(msgspec.Struct, frozen=True):
    """A file that uses a name; the callers in it are as good as its path where the question asks for callers."""

    file: str
    callers: tuple[str, ...] = ()


class Usages(msgspec.Struct, frozen=True, tag=True):
    """The answer names all sites, and no file or function that does not use the name."""

    identifier: str
    sites: tuple[Site, ...]
    defined: str
    also: tuple[str, ...] = ()
    """Files that may be named: they mention the identifier, but the question does not need them."""
    wrong_callers: tuple[str, ...] = ()

    def check(self, answer: str, paths: Collection[str]) -> str:
        allowed = {self.defined, *self.also, *(site.file for site in self.sites)}
        named: set[str] = set()
        for mention in mentions(answer, paths):
            if len(mention.files) == 1:
                named.add(mention.files[0])
            if not allowed.intersection(mention.files) and not mention.negated:
                return f"The answer names {mention.text}, which does not use {self.identifier}."
        for name in self.wrong_callers:
            if has_token(answer, name):
                return f"The answer names {name}, which does not use {self.identifier}."
        for site in self.sites:
            callers = bool(site.callers) and all(has_token(answer, name) for name in site.callers)
            if site.file not in named and not callers:
                return f"The answer does not name {site.file}."
        return ""


class Unused(msgspec.Struct, frozen=True, tag=True):
    """The answer says no, and names no file as a user except those allowed (the tests, the definition, the docs)."""

    identifier: str
    allowed: tuple[str, ...]

    def check(self, answer: str, paths: Collection[str]) -> str:
        if _YES.match(answer) or not _DENIAL.search(answer):
            return f"The answer does not say that {self.identifier} is unused."
        for mention in mentions(answer, paths):
            if not set(self.allowed).intersection(mention.files) and not mention.negated:
                return f"The answer names {mention.text}, which does not use {self.identifier}."
        return ""


class Value(msgspec.Struct, frozen=True, tag=True):
    """The answer contains one of the right spellings as a whole token, and none of the wrong values."""

    file: str
    line: str
    """The line that sets the value; the test of the tasks looks it up."""
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()

    def check(self, answer: str, paths: Collection[str]) -> str:
        text = _LINE_NUMBER.sub(" ", answer)
        for value in self.wrong:
            if has_token(text, value):
                return f"The answer contains {value}, which is the value of something else."
        if not any(has_token(text, value) for value in self.right):
            return f"The answer does not contain {self.right[0]}."
        return ""


class Words(msgspec.Struct, frozen=True, tag=True):
    """The answer contains a word of every group, and none of the wrong words."""

    groups: tuple[tuple[str, ...], ...]
    wrong: tuple[str, ...] = ()

    def check(self, answer: str, paths: Collection[str]) -> str:
        for word in self.wrong:
            if has_token(answer, word):
                return f"The answer contains {word!r}, which is wrong."
        for group in self.groups:
            if not any(has_token(answer, word) for word in group):
                return f"The answer does not contain {group[0]!r}."
        return ""


class Files(msgspec.Struct, frozen=True, tag=True):
    """The answer names all the files, and no others."""

    files: tuple[str, ...]
    also: tuple[str, ...] = ()

    def check(self, answer: str, paths: Collection[str]) -> str:
        named: set[str] = set()
        for mention in mentions(answer, paths):
            if len(mention.files) == 1:
                named.add(mention.files[0])
            if not {*self.files, *self.also}.intersection(mention.files) and not mention.negated:
                return f"The answer names {mention.text}, which is not one of the files."
        missing = [file for file in self.files if file not in named]
        return f"The answer does not name {missing[0]}." if missing else ""


class Replacement(msgspec.Struct, frozen=True, tag=True):
    """The file is as before, with every `old` (a whole word or a line) replaced by `new`."""

    file: str
    old: str
    new: str

    def check(self, before: str, after: str) -> str:
        expected = re.sub(rf"(?<!\w){re.escape(self.old)}(?!\w)", lambda _: self.new, before)
        if after.rstrip() == expected.rstrip():
            return ""
        return f"{self.file} is not the original with {self.old!r} replaced by {self.new!r}."


class Constant(msgspec.Struct, frozen=True, tag=True):
    """The module assigns the value to the name at the top level, and is otherwise as before."""

    file: str
    name: str
    value: int | str

    def check(self, before: str, after: str) -> str:
        try:
            module = ast.parse(after)
        except SyntaxError as error:
            return f"{self.file} is no longer valid Python: {error.msg}."
        added = [statement for statement in module.body if self.name in _assigned(statement)]
        rest = [statement for statement in module.body if statement not in added]
        if len(added) != 1 or not isinstance(added[0], ast.Assign | ast.AnnAssign) or added[0].value is None:
            return f"{self.file} does not assign {self.name} once at the top level."
        try:
            value: object = ast.literal_eval(added[0].value)
        except ValueError:
            return f"{self.name} is not a plain value."
        if type(value) is not type(self.value) or value != self.value:
            return f"{self.name} is {value!r}, not {self.value!r}."
        if _dump(rest) != _dump([item for item in ast.parse(before).body if self.name not in _assigned(item)]):
            return f"Something other than {self.name} changed in {self.file}."
        return ""


class Case(msgspec.Struct, frozen=True):
    arguments: tuple[Any, ...]
    result: Any


class Behaviour(msgspec.Struct, frozen=True, tag=True):
    """The function returns the results, and the rest of the module is as before.

    Only this function and the plain constants of its module are executed, with harmless builtins.
    """

    file: str
    function: str
    cases: tuple[Case, ...]

    def check(self, before: str, after: str) -> str:
        try:
            module = ast.parse(after)
        except SyntaxError as error:
            return f"{self.file} is no longer valid Python: {error.msg}."
        changed = [item for item in module.body if isinstance(item, ast.FunctionDef) and item.name == self.function]
        if len(changed) != 1:
            return f"{self.file} does not define {self.function} once."
        if _dump(self._others(module)) != _dump(self._others(ast.parse(before))):
            return f"Something other than {self.function} changed in {self.file}."
        constants = [
            item for item in module.body if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        ]
        if any(isinstance(node, ast.Import | ast.ImportFrom | ast.While) for node in ast.walk(changed[0])):
            return f"{self.function} imports or loops, which this change does not need."
        # Annotations stay unevaluated: they may name what the module imports, and nothing is imported here.
        flags = annotations.compiler_flag
        namespace: dict[str, Any] = {"__builtins__": _BUILTINS}
        exec(compile(ast.Module([*constants, *changed], []), self.file, "exec", flags), namespace)
        for case in self.cases:
            try:
                result = namespace[self.function](*case.arguments)
            except Exception as error:
                return f"{self.function}{case.arguments} raises {error!r}."
            if result != case.result:
                return f"{self.function}{case.arguments} returns {result!r}, not {case.result!r}."
        return ""

    def _others(self, module: ast.Module) -> list[ast.stmt]:
        return [item for item in module.body if not (isinstance(item, ast.FunctionDef) and item.name == self.function)]


def _assigned(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _dump(statements: list[ast.stmt]) -> list[str]:
    return [ast.dump(statement) for statement in statements]


AnswerCheck = Definition | Usages | Unused | Value | Words | Files
EditCheck = Replacement | Constant | Behaviour


class Task(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: Kind
    prompt: str
    expected: AnswerCheck | EditCheck

    def check(self, answer: str, root: Path, original: Mapping[str, bytes]) -> str:
        """Return "" if the answer, or the edit in `root`, is right. `original` is the snapshot before the task."""
        current = snapshot(root)
        expected = self.expected
        changed = sorted(path for path in {*original, *current} if original.get(path, None) != current.get(path, None))
        edited = expected.file if isinstance(expected, EditCheck) else None
        for path in changed:
            if path != edited:
                return f"{path} changed."
        if not isinstance(expected, EditCheck):
            return expected.check(answer, original)
        if expected.file not in changed:
            return f"{expected.file} did not change."
        after = current.get(expected.file, b"").decode(errors="replace")
        return expected.check(original[expected.file].decode(), after)
