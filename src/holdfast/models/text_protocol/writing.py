"""Writes calls and results as the text protocol shows them to a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.models.arguments import as_object
from holdfast.models.text_protocol.bodies import CONTENT
from holdfast.models.text_protocol.grammar import ANY_TAG, CALL_END, seed_name
from holdfast.models.text_protocol.reading import Asked, Parsed, parse

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_LOOKS_FRAMED: Final = re.compile(r"===(?=[^\S\n]*/?[^\S\n]*tool_(?:result|error))", re.IGNORECASE)
_LOOKS_CALLED: Final = re.compile(
    rf"\[(?={ANY_TAG[2:]})|``(?=`)|~~(?=~)|---(?={CONTENT[3:]})"
)
_ALSO_TEXT: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/toml", "application/javascript"}
)
_TEXT_ENDS: Final = ("+json", "+xml", "+yaml")
_LONGEST_NAME: Final = 200


def write_call(use: ToolUse) -> str:
    """A call as a model writes it, in a form that reads back as exactly this call.

    Arguments that are no JSON object are shown under a key that says so: they only are history.
    """
    args = as_object(use.arguments)
    compact = _COMPACT.get(use.name)
    if compact:
        for written in compact(args):
            if parse(written) == Parsed((Asked(use.name, args, written),), ()):
                return written
    return f"[call: {_name(use.name)}]\n{json.dumps(args, ensure_ascii=False)}\n{CALL_END}"


def write_result(result: ToolResult) -> str:
    """What came of a call, with the text that is attached to it, in a frame that nothing in it can open or close."""
    kind = "tool_error" if result.error else "tool_result"
    lines = [f"=== {kind}: {_one_line(seed_name(result.name))} ===", without_frames(result.output)]
    for attached in result.attachments:
        if is_text(attached):
            name = _one_line(attached.name or attached.uri or "a text")
            lines += (f"attached: {name}", without_frames(attached.data.decode("utf-8", "replace")))
    return "\n".join((*lines, f"=== /{kind} ==="))


def is_text(attached: Attachment) -> bool:
    """Whether what is attached can be read as text; it is part of its result then."""
    kind = attached.mime_type.partition(";")[0].strip().lower()
    return bool(attached.data) and (kind.startswith("text/") or kind in _ALSO_TEXT or kind.endswith(_TEXT_ENDS))


def without_frames(text: str) -> str:
    """What looks like a frame is marked: only the runtime writes them."""
    return _LOOKS_FRAMED.sub(r"===\\", text)


def without_tags(text: str) -> str:
    """Nothing in it is a call, a quotation or a frame any more, and it still can be seen what was written."""
    return _LOOKS_CALLED.sub(lambda found: f"{found[0]}\\", without_frames(text))


def _name(name: str) -> str:
    """As `[call: NAME]` says it."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return json.dumps(name).replace("[", "\\u005b").replace("]", "\\u005d")


def _one_line(name: str) -> str:
    shown = " ".join("".join(char if char.isprintable() else " " for char in without_frames(name)).split())
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"


def _inline(seed: str, key: str) -> Callable[[dict[str, Any]], Iterator[str]]:
    def write(args: dict[str, Any]) -> Iterator[str]:
        if args.keys() == {key} and isinstance(args[key], str):
            yield f"[{seed}: {args[key]}]"

    return write


def _static(seed: str) -> Callable[[dict[str, Any]], Iterator[str]]:
    def write(args: dict[str, Any]) -> Iterator[str]:
        if not args:
            yield f"[{seed}]"

    return write


def _write(args: dict[str, Any]) -> Iterator[str]:
    if args.keys() == {"path", "content"}:
        path, content = args["path"], args["content"]
        if content == "":
            yield f"[write_file: {path}]"
        yield f"[write_file]\npath: {path}\n---content---\n{content}\n[/write_file]"


def _edit(args: dict[str, Any]) -> Iterator[str]:
    if args.keys() == {"path", "search", "replace", "mode"}:
        yield (
            f"[edit_file]\npath: {args['path']}\n---search---\n{args['search']}\n"
            f"---replace---\n{args['replace']}\n[/edit_file]"
        )


_COMPACT: Final[dict[str, Callable[[dict[str, Any]], Iterator[str]]]] = {
    "file.read": _inline("read_file", "path"),
    "file.list": _inline("list_dir", "path"),
    "code.search": _inline("search_code", "query"),
    "git.status": _static("git_status"),
    "git.diff": _static("git_diff"),
    "git.log": _static("git_log"),
    "file.write": _write,
    "file.edit": _edit,
}
"""The forms to try. Which of them says exactly what is meant is found out by reading it."""
