"""Writes `docs/api.md`, the reference of every public name: `python -m scripts.api_reference > docs/api.md`.

Signatures and docstrings are read from the source with griffe, so that the page cannot disagree with the code.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final, cast

import griffe

import holdfast

SOURCE: Final = Path(__file__).parents[1] / "src"
GROUPS: Final = {
    "Runtime": ("Runtime", "open_runtime", "Request", "Config", "Caller", "Deny"),
    "Tools": ("tool", "define", "Tool", "Context", "Proposal", "Precondition"),
    "Results": ("Result", "ok", "fail", "Attachment", "State", "Risk"),
    "Calls and answers": ("Call", "PendingCall", "Decision", "Verdict", "Answer", "Widening"),
    "Events and errors": ("Event", "HoldfastError"),
}
HEAD: Final = """\
# API reference

Every name in `holdfast.__all__`, generated from the source by `python -m scripts.api_reference > docs/api.md`. A test
fails when this page is out of date. [python.md](python.md) is the guide, [writing-tools.md](writing-tools.md) the one
for authors of tools. Names that are not listed here may change without notice.
"""


def reference() -> str:
    """The whole page."""
    package = cast(griffe.Module, griffe.load("holdfast", search_paths=[SOURCE], resolve_aliases=True))
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(name, _resolve(package, name)) for name in names]
    return "\n".join(parts)


def missing() -> set[str]:
    """Public names that no group lists, and listed names that are not public."""
    return {name for names in GROUPS.values() for name in names} ^ set(holdfast.__all__)


def _resolve(package: griffe.Module, name: str) -> griffe.Object:
    home = holdfast._HOMES[name]  # pyright: ignore[reportPrivateUsage]
    found = package[f"{home}.{name}"]
    return cast(griffe.Object, found.final_target if isinstance(found, griffe.Alias) else found)


def _entry(name: str, item: griffe.Object) -> str:
    lines = [f"### `{name}`\n"]
    if isinstance(item, griffe.Class):
        lines += _class(item)
    elif isinstance(item, griffe.Function):
        shown = (item.overloads or [item])[-1]  # the last overload of `tool` names every option
        lines += ["```py", _signature(shown), "```\n", _text(item)]
    elif isinstance(item, griffe.Attribute):
        lines += ["```py", f"{name} = {item.value}", "```\n", _text(item)]
    return "\n".join(lines)


def _class(item: griffe.Class) -> list[str]:
    bases = ", ".join(str(base) for base in item.bases if str(base) not in ("Struct", "Protocol"))
    lines = [f"A subclass of `{bases}`.\n"] if bases else []
    lines.append(_text(item))
    made = item.members.get("__init__")
    if isinstance(made, griffe.Function):
        lines += ["```py", _signature(made, name=item.name), "```\n"]
    fields = [member for member in _members(item) if isinstance(member, griffe.Attribute) and _is_field(member)]
    if fields:
        lines += ["| field | type | default | |", "|---|---|---|---|"]
        lines += [_field(member) for member in fields]
        lines.append("")
    for member in _members(item):
        if isinstance(member, griffe.Function):
            words = _text(member, indent="  ").strip()
            lines.append(f"- `{_signature(member, short=True)}`{f': {words}' if words else ''}")
    lines.append("")
    return lines


def _members(item: griffe.Class) -> list[griffe.Object]:
    own = [member for member in item.members.values() if not isinstance(member, griffe.Alias)]
    return [member for member in own if not member.name.startswith("_")]


def _is_field(item: griffe.Attribute) -> bool:
    """Fields and properties of the class; what `__init__` assigns counts only where it is documented."""
    declared = "class-attribute" in item.labels or "property" in item.labels or item.value is None
    return declared or item.docstring is not None


def _field(item: griffe.Attribute) -> str:
    kind, words = _unpacked("" if item.annotation is None else str(item.annotation))
    shows_default = item.value is not None and "class-attribute" in item.labels
    default = f"`{_cell(_default(str(item.value)))}`" if shows_default and "init=False" not in str(item.value) else ""
    return (
        f"| `{item.name}` | {f'`{_cell(kind)}`' if kind else ''} | {default} | {_cell(_text(item).strip() or words)} |"
    )


def _default(value: str) -> str:
    """A default as a reader would write it: `field(default_factory=dict[str, Json])` is `{}`."""
    if not value.startswith("field("):
        return value
    return "{}" if "dict" in value else value.removeprefix("field(default=").removesuffix(")")


def _unpacked(annotation: str) -> tuple[str, str]:
    """The type and the documentation of `Annotated[type, ..., "documentation"]`."""
    if not annotation.startswith("Annotated["):
        return annotation, ""
    inside = cast(ast.Subscript, ast.parse(annotation, mode="eval").body).slice
    kind, *marks = cast(ast.Tuple, inside).elts
    words = [mark.value for mark in marks if isinstance(mark, ast.Constant) and isinstance(mark.value, str)]
    return ast.unparse(kind), words[-1] if words else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _text(item: griffe.Object, indent: str = "") -> str:
    if item.docstring is None:
        return ""
    return f"{item.docstring.value.strip()}\n".replace("\n", f"\n{indent}" if indent else "\n")


def _signature(item: griffe.Function, *, name: str | None = None, short: bool = False) -> str:
    parameters = [_parameter(each) for each in item.parameters if each.name not in ("self", "cls")]
    kinds = [each.kind for each in item.parameters if each.name not in ("self", "cls")]
    keyword = griffe.ParameterKind.keyword_only
    if keyword in kinds and griffe.ParameterKind.var_positional not in kinds:
        parameters.insert(kinds.index(keyword), "*")
    returns = "" if item.returns is None or item.name == "__init__" else f" -> {item.returns}"
    start = "async " if "async" in item.labels and not short else ""
    head = f"{start}{name or item.name}"
    if short:
        return f"{head}({', '.join(parameters)}){returns}"
    inside = "".join(f"\n    {each}," for each in parameters)
    return f"{head}({inside}\n){returns}" if parameters else f"{head}(){returns}"


def _parameter(item: griffe.Parameter) -> str:
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
        cast(griffe.ParameterKind, item.kind), ""
    )
    kind = "" if item.annotation is None else f": {item.annotation}"
    given = "{}" if "dict" in str(item.default) else item.default
    default = "" if item.default is None or stars else f" = {given}" if kind else f"={given}"
    return f"{stars}{item.name}{kind}{default}"


if __name__ == "__main__":
    sys.stdout.write(reference())
