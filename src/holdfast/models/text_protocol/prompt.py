"""What a model is told: how calls are written, and which tools there are. The same tools give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.contract.tool import Tool
from holdfast.models.text_protocol.grammar import TOOLS
from holdfast.models.text_protocol.shapes import shape, shorten

FORMS: Final = {
    "read_file": "[read_file: PATH]",
    "list_dir": "[list_dir: PATH]",
    "search_code": "[search_code: KEYWORD]",
    "git_status": "[git_status]",
    "git_diff": "[git_diff]",
    "git_log": "[git_log]",
    "write_file": "[write_file]\npath: PATH\n---content---\nCONTENT\n[/write_file]",
    "edit_file": "[edit_file]\npath: PATH\n---search---\nOLD TEXT\n---replace---\nNEW TEXT\n[/edit_file]",
}
"""How each call is written, by its small name."""
NO_TOOLS: Final = "There are no tools now: answer in plain text."
_RULES: Final = (
    "You work with tools. To call one, write its form exactly as below, each call on a line of its own and outside "
    "code fences. Then stop and wait: the results are sent to you. Never write a result yourself."
)
_SEARCHING: Final = "To search, give one plain keyword, such as a name: no sentence, no pattern."
_LONGEST: Final = 120
_LONGEST_SIGNATURE: Final = 600


def instructions(tools: Sequence[Tool]) -> str:
    """The part of the system prompt that is ours."""
    if not tools:
        return NO_TOOLS
    given = {tool.name: tool for tool in tools}
    small = {seed: given[name] for seed, name in TOOLS.items() if name in given}
    rest = [tool for tool in tools if tool.name not in TOOLS.values()]
    entries = [_entry(FORMS[seed], tool) for seed, tool in small.items()]
    entries += [_entry(f"[call: {tool.name}]{signature(tool.input_schema)}[/call]", tool) for tool in rest]
    head = [_RULES, _SEARCHING] if "search_code" in small else [_RULES]
    return "\n".join((*head, "", *entries))


def signature(schema: Mapping[str, Any]) -> str:
    """A schema as one short line: `{"command": text, "timeout"?: number}`; a `?` may be left out."""
    return shorten(shape(schema), _LONGEST_SIGNATURE)


def _entry(form: str, tool: Tool) -> str:
    meaning = _first_sentence(tool.description)
    if not meaning:
        return form
    return f"{form}\n(above: {meaning})" if "\n" in form else f"{form} - {meaning}"


def _first_sentence(description: str) -> str:
    """White space and what cannot be printed become blanks: a description is one line whoever wrote it."""
    line = " ".join("".join(char if char.isprintable() else " " for char in description).split())
    sentence = re.split(r"(?<=[.!?]) ", line, maxsplit=1)[0]
    return shorten(sentence, _LONGEST)
