"""`@tool`: a tool from a typed Python function. Signature and docstring become the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_type_hints, overload

from holdfast.contract.context import Context
from holdfast.contract.docstring import read_docstring
from holdfast.contract.errors import ToolError
from holdfast.contract.signature import Parameter, describe_return, object_schema, read_parameters, to_integer
from holdfast.contract.tool import Execute, Runs, Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Effect, Risk

_Function = Callable[..., Any]


@overload
def tool(function: _Function, /) -> Tool: ...
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
) -> Callable[[_Function], Tool]: ...
def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] | None = None,
    risk: Risk | str = Risk.MEDIUM,
    runs: Runs = "thread",
    strict: bool = False,
    output_schema: dict[str, Any] | None = None,
    capabilities: Iterable[str] = (),
    required_secret_scopes: Iterable[str] = (),
    aliases: Iterable[str] = (),
    groups: Iterable[str] = (),
    **more: Any,
) -> Tool | Callable[[_Function], Tool]:
    """Make a `Tool` of a function. Say `effects=()` if it is pure; what is not declared is asked about."""

    def make(function: _Function) -> Tool:
        hints = _hints(function)
        documented = read_docstring(function)
        parameters, context_name = read_parameters(function, hints, documented.parameters, Context)
        if runs == "process" and context_name:
            raise ToolError(f"'{function.__name__}' runs in a process of its own, so it cannot take a context.")
        return Tool(
            name=name or function.__name__,
            execute=_executor(function, parameters, context_name, strict=strict),
            description=documented.description if description is None else description,
            input_schema=object_schema(parameters, strict=strict),
            output_schema=describe_return(hints.get("return")) if output_schema is None else output_schema,
            effects=None if effects is None else frozenset(effects),
            risk=Risk(risk),
            runs=runs,
            strict=strict,
            capabilities=frozenset(capabilities),
            required_secret_scopes=tuple(required_secret_scopes),
            aliases=tuple(aliases),
            groups=tuple(groups),
            **more,
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
    integers = tuple(item.name for item in parameters if item.convert is to_integer)
    plain = len(integers) == len(converters) and not optional

    def prepare(args: Args) -> dict[str, Any]:
        values: dict[str, Any] = {key: value for key, value in args.items() if value is not None or key not in optional}
        for key, convert in converters:
            if key in values:
                values[key] = convert(values[key])
        return values

    def execute(args: Args, ctx: Context) -> Any:
        return function(**prepare(args)) if context_name is None else function(**prepare(args), **{context_name: ctx})

    def execute_plain(args: Args, ctx: Context) -> Any:
        for key in integers:
            if type(args.get(key)) is float:
                return function(**prepare(args))
        return function(**args)

    chosen = execute_plain if plain and context_name is None else execute
    chosen.__wrapped__ = function  # pyright: ignore[reportFunctionMemberAccess]
    chosen.__name__ = function.__name__
    return chosen
