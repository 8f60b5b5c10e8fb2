"""`@tool`: makes a tool from a typed Python function. The schema comes from the signature and the docstring."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial, update_wrapper
from pathlib import PurePath
from types import MethodType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)
from uuid import UUID

import msgspec

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Effect, Risk
from holdfast.contract.errors import ToolError
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result
from holdfast.contract.tool import FIELDS, Execute, Runs, Tool, suggest_choices

_Style = Literal["google", "numpy", "sphinx"]
_STYLES: Final[dict[_Style, str]] = {
    "google": r"(?m)^\s*(?:Args|Arguments|Params|Parameters):\s*$",
    "numpy": r"(?m)^\s*Parameters\s*\n\s*-{3,}\s*$",
    "sphinx": r"(?m)^\s*:(?:param|parameter|arg)\b",
}


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description and the parameter descriptions. Docstrings with sections are parsed by griffe."""
    text = inspect.cleandoc(function.__doc__ or "")
    styles: list[_Style] = [style for style, sign in _STYLES.items() if "\n" in text and re.search(sign, text)]
    if not styles:
        return text.strip(), {}
    import logging

    # griffe and pydantic are heavy, so they are imported only for signatures that need them.
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
_JSON_TYPES: Final = frozenset({str, bool, float, NoneType, Any, object})
_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_DEFS: Final = "#/$defs/{name}"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter: its JSON Schema, and the conversion from JSON to the Python type."""

    name: str
    schema: dict[str, Any]
    definitions: dict[str, Any]
    required: bool
    nullable: bool
    convert: Convert | None
    """None if the JSON value needs no conversion."""


def read_parameters(
    function: Callable[..., Any], hints: Mapping[str, Any], docs: Mapping[str, str]
) -> tuple[list[Parameter], str | None]:
    """Return the parameters that appear in the schema, and the name of the context parameter."""
    found: list[Parameter] = []
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint is Context or (parameter.name == "ctx" and parameter.name not in hints):
            context_name = parameter.name
        elif parameter.kind not in _NAMED_KINDS:
            raise ToolError(f"'{function.__name__}' takes *{parameter.name}: a tool needs named parameters.")
        else:
            found.append(_parameter(function.__name__, parameter, hint, docs.get(parameter.name)))
    return found, context_name


def object_schema(parameters: Sequence[Parameter], *, strict: bool) -> dict[str, Any]:
    """Return the closed object schema. With `strict`, all properties are required and optional ones are nullable."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for item in parameters:
        optional = strict and not item.required and not item.nullable
        properties[item.name] = _nullable(item.schema) if optional else item.schema
        definitions |= item.definitions
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [item.name for item in parameters if strict or item.required],
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def describe_return(hint: Any) -> dict[str, Any] | None:
    """Return the output schema if the function returns a typed object, else None."""
    schema = _return_schema(hint)
    return None if schema is None else _with_nullable_numbers(schema)


def _with_nullable_numbers(schema: Any) -> Any:
    """Allow null wherever a number is allowed: results replace NaN and infinity by null."""
    if isinstance(schema, list):
        return [_with_nullable_numbers(part) for part in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _with_nullable_numbers(part) for key, part in cast(dict[str, Any], schema).items()}
    return _nullable(parts) if parts.get("type") == "number" else parts


def _return_schema(hint: Any) -> dict[str, Any] | None:
    if hint is Result:
        return None
    if _is_pydantic_model(hint):
        return _pydantic_schema("the return value", lambda: hint.model_json_schema(mode="serialization"))
    kind: Any = hint
    if isinstance(hint, type) and (is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)):
        if _needs_pydantic(hint):
            schema, definitions, _ = _pydantic_type("the return value", hint, mode="serialization")
        else:
            schema, definitions = _msgspec_schema("the return value", kind)
        return _inline(schema, definitions)
    return None


_STORABLE_TYPES: Final = (
    str,
    int,
    float,
    bytes,
    bytearray,
    NoneType,
    date,
    time,
    timedelta,
    Decimal,
    UUID,
    Enum,
    PurePath,
    list,
    tuple,
    set,
    frozenset,
    Mapping,
    Result,
    Proposal,
    msgspec.Struct,
)
"""Types, including subclasses, that a result can hold, besides dataclasses and models."""
_UNSTORABLE_TYPES: Final = (Iterator, AsyncIterable)


def check_return(function: _Function, hint: Any) -> None:
    """Reject a function whose annotated return type cannot be stored, before it can run and have effects."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolError(f"'{function.__name__}' is a generator, which cannot be stored as a result. Return a list.")
    if (kind := _unstorable_type(hint)) is not None:
        raise ToolError(
            f"'{function.__name__}' returns {kind.__name__}, which cannot be stored as a result. "
            "Return text, JSON, a dataclass, a pydantic model or a Result."
        )


def _unstorable_type(hint: Any) -> type | None:
    """Return a type in the hint that no result can hold, else None. Abstract types and protocols are accepted."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _unstorable_type(get_args(hint)[0])
    if origin is Literal:
        return None
    kind: Any = hint if origin is None else origin
    if isinstance(kind, type) and kind not in (object, Any, UnionType) and not _is_storable(kind):
        return kind
    return next((found for part in get_args(hint) if (found := _unstorable_type(part)) is not None), None)


def _is_storable(kind: Any) -> bool:
    if issubclass(kind, _UNSTORABLE_TYPES):
        return False
    left_open = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False)
    made_of_fields = hasattr(kind, "__attrs_attrs__") or _is_pydantic_model(kind)
    return issubclass(kind, _STORABLE_TYPES) or left_open or made_of_fields or is_dataclass(kind)


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
        name=parameter.name,
        schema={**schema, **extra},
        definitions=definitions,
        required=required,
        nullable=_allows_none(hint),
        convert=convert,
    )


def _describe(where: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any], Convert | None]:
    hint, description = _annotated_description(hint)
    if _needs_pydantic(hint):
        schema, definitions, convert = _pydantic_type(where, hint)
    else:
        schema, definitions = _msgspec_schema(where, hint)
        into = partial(msgspec.convert, type=hint, dec_hook=_from_text)
        convert = None if _is_json_type(hint) else _to_integer if hint is int else into
    return {**schema, "description": description} if description else schema, definitions, convert


def _annotated_description(hint: Any) -> tuple[Any, str | None]:
    """Split off the description in `Annotated[int, "how many"]` or `Annotated[int, Doc("how many")]`."""
    if get_origin(hint) is not Annotated:
        return hint, None
    inner, *notes = get_args(hint)
    words = [note if isinstance(note, str) else getattr(note, "documentation", None) for note in notes]
    rest = [note for note, word in zip(notes, words, strict=True) if word is None]
    description = next((word for word in words if word), None)
    return (Annotated[(inner, *rest)] if rest else inner), description


def _msgspec_schema(where: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        (schema,), definitions = msgspec.json.schema_components([hint], schema_hook=_path_schema, ref_template=_DEFS)
    except (TypeError, ValueError) as error:
        raise ToolError(f"The type of {where} has no JSON Schema: {str(error).splitlines()[0]}") from None
    return schema, definitions


def _pydantic_type(
    where: str, hint: Any, *, mode: Literal["validation", "serialization"] = "validation"
) -> tuple[dict[str, Any], dict[str, Any], Convert]:
    from pydantic import TypeAdapter

    adapter: list[TypeAdapter[Any]] = []

    def made() -> dict[str, Any]:
        adapter.append(TypeAdapter(hint))
        return adapter[0].json_schema(ref_template="#/$defs/{model}", mode=mode)

    schema = _pydantic_schema(where, made)
    definitions = cast(dict[str, Any], schema.pop("$defs", {}))
    return schema, definitions, adapter[0].validate_python


def _pydantic_schema(where: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    from pydantic.errors import PydanticUserError

    try:
        return make()
    except PydanticUserError as error:
        raise ToolError(f"The type of {where} has no JSON Schema: {error.message}") from None


def _path_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string"}
    raise NotImplementedError


def _from_text(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError


def _to_integer(value: Any) -> Any:
    """Convert 3.0 to 3: JSON Schema accepts it as an integer."""
    return int(value) if type(value) is float else value


def _is_json_type(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is None:
        return hint in _JSON_TYPES
    if origin is Literal:
        return all(not isinstance(option, Enum) for option in get_args(hint))
    if origin in (list, dict, Union, UnionType):
        return all(_is_json_type(part) or part is int for part in get_args(hint))
    return False


def _needs_pydantic(hint: Any, above: tuple[Any, ...] = ()) -> bool:
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return any(not isinstance(note, msgspec.Meta) for note in notes) or _needs_pydantic(inner, above)
    if _is_pydantic_model(hint) or hasattr(hint, "__pydantic_fields__"):
        return True
    kind: Any = hint
    if isinstance(hint, type) and (is_dataclass(kind) or is_typeddict(kind)) and kind not in above:
        return any(_needs_pydantic(part, (*above, kind)) for part in _field_types(kind))
    return any(_needs_pydantic(part, above) for part in get_args(hint) if get_origin(hint) is not Literal)


def _field_types(kind: Any) -> Iterable[Any]:
    if "pydantic" not in sys.modules:
        return ()
    try:
        return get_type_hints(kind, include_extras=True).values()
    except (NameError, TypeError):
        return ()


def _is_pydantic_model(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _allows_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _allows_none(get_args(hint)[0])
    return hint in (None, NoneType, Any) or (get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
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
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
_OPTIONS: Final = FIELDS - {"execute", "input_schema", "propose", "apply", "source", "profiles", "presets"}


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function. It is still callable like the function."""

    function: Callable[P, R]

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> FunctionTool[P, R]: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R], instance: object, owner: type | None = None, /
    ) -> FunctionTool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        """For type checkers only: `@tool` on a method returns a `ToolMethod`, which does the binding."""
        return self

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self.function

    @property
    def __name__(self) -> str:
        return self.function.__name__


class ToolMethod:
    """`@tool` on a method: a descriptor that makes the tool when the method is accessed on an instance."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Any, make: Callable[[_Function], Tool]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._make = make
        self._of_class = isinstance(function, classmethod)

    def __get__(self, instance: object, owner: type | None = None) -> Tool | ToolMethod:
        if instance is None and not self._of_class:
            return self
        return self._make(self._function.__get__(instance, owner))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] | None = None,
    risk: Risk | str = Risk.MEDIUM,
    runs: Runs = "thread",
    timeout: float | None = None,
    strict: bool = False,
    touches: Callable[[Args], Sequence[str]] | None = None,
    capabilities: Iterable[str] = (),
    required_secret_scopes: Iterable[str] = (),
    format_preview: Callable[[Args, int], str] | None = None,
    summary: Callable[[Args], str] | None = None,
    aliases: Iterable[str] = (),
    groups: Iterable[str] = (),
    enabled: bool = True,
    output_schema: dict[str, Any] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Any = None, /, *, name: str | None = None, strict: bool = False, **options: Any) -> Any:
    """Make a `Tool` from a function. Declare `effects=()` if it is pure: undeclared effects need approval."""
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ToolError(f"@tool has no option '{unknown[0]}'. {suggest_choices(unknown[0], sorted(_OPTIONS))}")

    def make(function: _Function) -> Tool:
        if name is None and function.__name__ == "<lambda>":
            raise ToolError("A lambda has no name: use tool(name=...)(lambda ...), or a function.")
        hints = _type_hints(function)
        said, docs = _read_docstring(function)
        parameters, context_name = read_parameters(function, hints, docs)
        if options.get("runs") == "process" and (context_name or inspect.ismethod(function)):
            what = "take a context" if context_name else "be a method"
            raise ToolError(f"'{function.__name__}' runs in its own process, so it cannot {what}.")
        check_return(function, hints.get("return"))
        derived: dict[str, Any] = {"description": said, "output_schema": describe_return(hints.get("return"))}
        given = {key: value for key, value in options.items() if key not in derived or value is not None}
        return FunctionTool(
            name=name or function.__name__,
            function=function,
            strict=strict,
            execute=_executor(function, parameters, context_name, strict=strict),
            input_schema=object_schema(parameters, strict=strict),
            **derived | given,
        )

    def decorate(function: Any) -> Tool | ToolMethod:
        if isinstance(function, MethodType) and isinstance(function.__func__, ToolMethod):
            return function.__func__.__get__(function.__self__)
        if isinstance(function, staticmethod):
            function = cast(_Function, function.__func__)
        if isinstance(function, classmethod) or _is_method(function):
            return ToolMethod(function, make)
        if isinstance(function, Tool | ToolMethod) or not inspect.isroutine(function):
            raise ToolError(f"@tool takes a function or a method, not {_describe_kind(function)}.")
        return make(function)

    return decorate if function is None else decorate(function)


def _is_method(function: Any) -> bool:
    """Whether a function is defined in a class body and takes `self` or `cls`."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), None)
    return bool(owner) and not owner.endswith("<locals>") and first in ("self", "cls")


def _describe_kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class '{value.__name__}'"
    if isinstance(value, FunctionTool | ToolMethod):
        return f"'{value.__name__}', which already is a tool"
    return type(value).__name__


def _type_hints(function: _Function) -> dict[str, Any]:
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
