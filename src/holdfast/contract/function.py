"""`@tool`: a tool from a typed Python function. Signature and docstring become the schema."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

import msgspec

from holdfast.contract.context import Context
from holdfast.contract.errors import ToolError
from holdfast.contract.result import Result
from holdfast.contract.tool import Execute, Runs, Tool
from holdfast.contract.values import Args, Json
from holdfast.contract.vocabulary import Effect, Risk

_Style = Literal["google", "numpy", "sphinx"]
_STYLES: Final[dict[_Style, str]] = {
    "google": r"(?m)^\s*(?:Args|Arguments|Params|Parameters):\s*$",
    "numpy": r"(?m)^\s*Parameters\s*\n\s*-{3,}\s*$",
    "sphinx": r"(?m)^\s*:(?:param|parameter|arg)\b",
}


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function and of each parameter. Sections are read by griffe, when there are any."""
    text = inspect.getdoc(function) or ""
    styles: list[_Style] = [style for style, sign in _STYLES.items() if "\n" in text and re.search(sign, text)]
    if not styles:
        return text.strip(), {}
    import logging

    from griffe import Docstring, DocstringSectionParameters, DocstringSectionText

    logging.getLogger("griffe").setLevel(logging.ERROR)
    description: list[str] = []
    parameters: dict[str, str] = {}
    for section in Docstring(text).parse(styles[0]):
        if isinstance(section, DocstringSectionText):
            description.append(section.value.strip())
        elif isinstance(section, DocstringSectionParameters):
            parameters |= {item.name.lstrip("*"): " ".join(item.description.split()) for item in section.value}
    return "\n\n".join(description), parameters


Convert = Callable[[Any], Any]
_PLAIN: Final = frozenset({str, bool, float, NoneType, Any, object})
_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_DEFS: Final = "#/$defs/{name}"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool, as the schema shows it and as the function takes it."""

    name: str
    schema: dict[str, Any]
    definitions: dict[str, Any]
    required: bool
    nullable: bool
    convert: Convert | None
    """None when the JSON value is already what the function wants."""


def read_parameters(
    function: Callable[..., Any], hints: Mapping[str, Any], docs: Mapping[str, str]
) -> tuple[list[Parameter], str | None]:
    """The schema-visible parameters of a function, and the name of the one that takes the context."""
    found: list[Parameter] = []
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint is Context or (parameter.name == "ctx" and parameter.name not in hints):
            context_name = parameter.name
        elif parameter.kind not in _KINDS:
            raise ToolError(f"'{function.__name__}' takes *{parameter.name}: a tool needs named parameters.")
        else:
            found.append(_parameter(function.__name__, parameter, hint, docs.get(parameter.name)))
    return found, context_name


def object_schema(parameters: Sequence[Parameter], *, strict: bool) -> dict[str, Any]:
    """The closed object schema of a tool; under strict everything is required and optional means nullable."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for item in parameters:
        optional = strict and not item.required and not item.nullable
        properties[item.name] = _or_null(item.schema) if optional else item.schema
        definitions |= item.definitions
    schema: dict[str, Any] = {
        "type": "object", "properties": properties,
        "required": [item.name for item in parameters if strict or item.required], "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def describe_return(hint: Any) -> dict[str, Any] | None:
    """An output schema for functions that return a typed object; other returns are text, free JSON or a `Result`."""
    if hint is Result:
        return None
    if _is_pydantic_model(hint):
        return hint.model_json_schema(mode="serialization")
    kind: Any = hint
    if isinstance(hint, type) and (is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)):
        schema, definitions = _by_msgspec("the return value", kind)
        return _inline(schema, definitions)
    return None


def _parameter(owner: str, parameter: inspect.Parameter, hint: Any, doc: str | None) -> Parameter:
    where = f"parameter '{parameter.name}' of '{owner}'"
    schema, definitions, convert = _describe(where, hint)
    required = parameter.default is inspect.Parameter.empty
    extra: dict[str, Any] = {}
    if doc and "description" not in schema:
        extra["description"] = doc
    if not required:
        default = _json_default(parameter.default)
        if default is not _NO_DEFAULT:
            extra["default"] = default
    return Parameter(
        name=parameter.name, schema={**schema, **extra}, definitions=definitions, required=required,
        nullable=_allows_none(hint), convert=convert,
    )


def _describe(where: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any], Convert | None]:
    hint, description = _own_description(hint)
    if _needs_pydantic(hint):
        schema, definitions, convert = _by_pydantic(where, hint)
    else:
        schema, definitions = _by_msgspec(where, hint)
        convert = None if _is_plain(hint) else _to_integer if hint is int else partial(msgspec.convert, type=hint)
    return {**schema, "description": description} if description else schema, definitions, convert


def _own_description(hint: Any) -> tuple[Any, str | None]:
    """`Annotated[int, "how many"]` and `Doc("how many")` describe a parameter without any library."""
    if get_origin(hint) is not Annotated:
        return hint, None
    inner, *notes = get_args(hint)
    words = [note if isinstance(note, str) else getattr(note, "documentation", None) for note in notes]
    rest = [note for note, word in zip(notes, words, strict=True) if word is None]
    description = next((word for word in words if word), None)
    return (Annotated[(inner, *rest)] if rest else inner), description


def _by_msgspec(where: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        (schema,), definitions = msgspec.json.schema_components([hint], ref_template=_DEFS)
    except (TypeError, ValueError) as error:
        raise ToolError(f"The type of {where} has no JSON Schema: {str(error).splitlines()[0]}") from None
    return schema, definitions


def _by_pydantic(where: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any], Convert]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema(ref_template="#/$defs/{model}")
    except PydanticUserError as error:
        raise ToolError(f"The type of {where} has no JSON Schema: {error.message}") from None
    definitions = cast(dict[str, Any], schema.pop("$defs", {}))
    return schema, definitions, adapter.validate_python


def _to_integer(value: Any) -> Any:
    """JSON's 3.0 is an integer too."""
    return int(value) if type(value) is float else value


def _is_plain(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is None:
        return hint in _PLAIN
    if origin is Literal:
        return all(not isinstance(option, Enum) for option in get_args(hint))
    if origin in (list, dict, Union, UnionType):
        return all(_is_plain(part) or part is int for part in get_args(hint))
    return False


def _needs_pydantic(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return any(not isinstance(note, msgspec.Meta) for note in notes) or _needs_pydantic(inner)
    if _is_pydantic_model(hint) or hasattr(hint, "__pydantic_fields__"):
        return True
    return any(_needs_pydantic(part) for part in get_args(hint) if get_origin(hint) is not Literal)


def _is_pydantic_model(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _allows_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _allows_none(get_args(hint)[0])
    return hint in (None, NoneType, Any) or (get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint))


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    notes = {key: schema[key] for key in ("description", "default") if key in schema}
    bare = {key: value for key, value in schema.items() if key not in notes}
    return {"anyOf": [bare, {"type": "null"}], **notes}


def _inline(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if reference in definitions:
        schema = {**definitions[reference]}
        if f"#/$defs/{reference}" not in str(definitions):
            definitions = {name: part for name, part in definitions.items() if name != reference}
    return {**schema, "$defs": definitions} if definitions else schema


_NO_DEFAULT: Final = object()


def _json_default(value: object) -> Json | object:
    try:
        return cast(Json, msgspec.to_builtins(value))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return _NO_DEFAULT


_Function = Callable[..., Any]


@overload
def tool(function: _Function, /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, effects: Iterable[Effect] | None = None,
    risk: Risk | str = Risk.MEDIUM, runs: Runs = "thread", timeout: float | None = None, strict: bool = False,
    touches: Callable[[Args], Sequence[str]] | None = None, capabilities: Iterable[str] = (),
    required_secret_scopes: Iterable[str] = (), format_preview: Callable[[Args, int], str] | None = None,
    summary: Callable[[Args], str] | None = None, aliases: Iterable[str] = (), groups: Iterable[str] = (),
    enabled: bool = True, output_schema: dict[str, Any] | None = None,
) -> Callable[[_Function], Tool]: ...
def tool(
    function: _Function | None = None, /, *, name: str | None = None, description: str | None = None,
    effects: Iterable[Effect] | None = None, risk: Risk | str = Risk.MEDIUM, runs: Runs = "thread",
    strict: bool = False, output_schema: dict[str, Any] | None = None, capabilities: Iterable[str] = (), **more: Any,
) -> Tool | Callable[[_Function], Tool]:
    """Make a `Tool` of a function. Say `effects=()` if it is pure; what is not declared is asked about."""
    more |= {key: tuple(more[key]) for key in ("required_secret_scopes", "aliases", "groups") if key in more}

    def make(function: _Function) -> Tool:
        if name is None and function.__name__ == "<lambda>":
            raise ToolError("A lambda has no name: write tool(name=...)(lambda ...), or a function.")
        hints = _hints(function)
        said, docs = _read_docstring(function)
        parameters, context_name = read_parameters(function, hints, docs)
        if runs == "process" and context_name:
            raise ToolError(f"'{function.__name__}' runs in a process of its own, so it cannot take a context.")
        return Tool(
            name=name or function.__name__, execute=_executor(function, parameters, context_name, strict=strict),
            description=said if description is None else description,
            input_schema=object_schema(parameters, strict=strict),
            output_schema=describe_return(hints.get("return")) if output_schema is None else output_schema,
            effects=None if effects is None else frozenset(effects), risk=Risk(risk), runs=runs, strict=strict,
            capabilities=frozenset(capabilities), **more,
        )

    return make if function is None else make(function)


def _hints(function: _Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolError(
            f"The annotations of '{function.__name__}' cannot be read ({error}); import the types it names."
        ) from None


def _executor(
    function: _Function, parameters: Sequence[Parameter], context_name: str | None, *, strict: bool
) -> Execute:
    converters = [(item.name, item.convert) for item in parameters if item.convert is not None]
    optional = frozenset(item.name for item in parameters if strict and not item.required and not item.nullable)

    def execute(args: Args, ctx: Context) -> Any:
        values: dict[str, Any] = {key: value for key, value in args.items() if value is not None or key not in optional}
        for key, convert in converters:
            if key in values:
                values[key] = convert(values[key])
        if context_name is not None:
            values[context_name] = ctx
        return function(**values)

    execute.__wrapped__ = function  # pyright: ignore[reportFunctionMemberAccess]
    execute.__name__ = function.__name__
    return execute
