"""`Tool`: a name, a schema, a function to execute, and metadata for the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, iscoroutinefunction, signature, unwrap
from math import isfinite
from typing import Any, Final, Literal, Self, get_args

from msgspec import Struct

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import EFFECTS, READING_EFFECTS, BuiltInPreset, Effect, Profile, Risk
from holdfast.contract.errors import InvalidSchema, ToolError
from holdfast.contract.json import Args, digest_of
from holdfast.contract.names import MCP_PREFIX, check_name, to_api_name
from holdfast.contract.result import Result
from holdfast.contract.schema import CompiledSchema, JsonSchema, compile_schema, strict_problems
from holdfast.text.suggest import did_you_mean

Outcome = Result | str | Mapping[str, Any] | Sequence[Any] | int | float | bool | None
Execute = Callable[..., Outcome | Awaitable[Outcome]]
"""`execute(args)`, `execute(args, ctx)` or `execute(args, ctx, callback)`; sync or async.

With a `callback` it can finish later: it calls `callback(result)` once, from any thread, and returns None or a function
that cancels the work.
"""
Propose = Callable[[Args, Context], Result | Proposal | Awaitable[Result | Proposal]]
Apply = Callable[[Args, Context], Outcome | Awaitable[Outcome]]
Place = Literal["web", "mail", "calendar", "documents", "mcp", "memory", "storage", "cluster", "media"]
"""A place outside the project that results come from or arguments go to. `media` stands for what images and recordings
say, wherever they are from."""
Runs = Literal["inline", "thread", "process"]
Keeps = Literal["head", "tail"]

EMPTY_OBJECT: Final[JsonSchema] = {"type": "object", "properties": {}}


class Reach(Struct, frozen=True):
    """The hosts that a call contacts."""

    hosts: tuple[str, ...]
    """Each as `host` or `host:port`, normalized; a host without a port stands for ports 80 and 443."""
    sends: bool = False
    """Whether the request can change something there (POST and the like), so that no rule or grant approves it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """A tool definition. Only `name` is required; without `execute`, the interface provides the result."""

    name: str
    execute: Execute | None = None
    description: str = ""
    input_schema: JsonSchema = field(default_factory=lambda: dict(EMPTY_OBJECT))
    output_schema: JsonSchema | None = None
    propose: Propose | None = None
    """First phase of a two-phase tool: returns a proposal. Use with `apply`, in place of `execute`."""
    apply: Apply | None = None
    strict: bool = False
    """Send `strict` to providers that support it."""
    timeout: float | None = None
    """Seconds; None means the configured default."""
    risk: Risk = Risk.MEDIUM
    effects: frozenset[str] | None = None
    """None means unknown. The empty set means pure: the tool reads and changes nothing."""
    touches: Callable[[Args], Sequence[str]] | None = None
    """Returns the paths a call will use, given its arguments."""
    reaches: Callable[[Args], Reach] | None = None
    """Returns the hosts a call will contact. Approval is then per host: by `network.hosts`, or by a grant for it."""
    sources: tuple[Place, ...] = ()
    """Where its results come from, if strangers can write there. Results are marked with it (`untrusted`)."""
    sinks: tuple[Place, ...] = ()
    """Where its arguments go, if others can read them there."""
    capabilities: frozenset[str] = frozenset()
    required_secret_scopes: tuple[str, ...] = ()
    referenced_secrets: Callable[[Args], Sequence[str]] | None = None
    """Returns the further secret scopes that the arguments of a call refer to."""
    format_preview: Callable[[Args, int], str] | None = None
    summary: Callable[[Args], str] | None = None
    aliases: tuple[str, ...] = ()
    """Other names for the tool, accepted from models, documents and configuration lists."""
    argument_aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names of arguments, mapped to the names in the schema."""
    timeout_in_seconds: tuple[str, ...] = ()
    """Tool aliases for which the argument `timeout` is in seconds; otherwise it is in milliseconds."""
    groups: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ()
    """The profiles that contain it. Ignored except for built-in tools, so that no other tool can add itself."""
    presets: tuple[BuiltInPreset, ...] = ()
    """The presets that approve it. Ignored except for built-in tools."""
    enabled: bool = True
    """A disabled tool is available only to callers that name it."""
    unavailable: Callable[[], str | None] | None = None
    """Returns why the tool cannot be used on this machine and how to change that, or None if it can."""
    needs_root: bool = False
    runs: Runs = "thread"
    """Where a sync function runs: `inline` only if it does not block; `process` can be killed."""
    keeps: Keeps = "head"
    """Which end of a long output is kept."""
    source: str = "program"
    """The origin: program, builtin, an entry point or an MCP server."""

    schema: CompiledSchema = field(init=False)
    output_validator: CompiledSchema | None = field(init=False)
    api_name: str = field(init=False)
    _digest: str = field(init=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        for alias in self.aliases:
            check_name(alias)
        if (self.propose is None) != (self.apply is None):
            raise ToolError(f"Tool '{self.name}' needs both `propose` and `apply`, or neither.")
        if self.propose is not None and self.execute is not None:
            raise ToolError(f"Tool '{self.name}' has both `execute` and `propose`: remove one of them.")
        put, foreign, output = object.__setattr__, self.source.startswith(MCP_PREFIX), self.output_schema
        for name, collect in _COLLECTIONS.items():
            put(self, name, _checked_collection(self, name, collect))
        put(self, "risk", Risk(_checked_choice(self, "risk", self.risk, tuple(Risk))))
        for name, known in _CHOICES.items():
            given: Any = getattr(self, name)
            for value in (given,) if isinstance(given, str) else given or ():
                _checked_choice(self, name, value, known)
        _check_functions(self)
        what = f"The input schema of '{self.name}'"
        put(self, "schema", compile_schema(self.input_schema, what, aliases=self.argument_aliases, untrusted=foreign))
        what = f"The output schema of '{self.name}'"
        put(self, "output_validator", None if output is None else compile_schema(output, what, untrusted=foreign))
        put(self, "api_name", to_api_name(self.name))
        put(self, "_digest", "")

    @property
    def digest(self) -> str:
        """Digest of the definition, to which approvals are bound. Computed on first use."""
        if not self._digest:
            effects = None if self.effects is None else sorted(self.effects)
            parts = [
                self.name,
                self.description,
                self.input_schema,
                self.output_schema,
                self.risk,
                effects,
                self.source,
            ]
            object.__setattr__(self, "_digest", digest_of(parts))
        return self._digest

    @property
    def pure(self) -> bool:
        return self.effects is not None and not self.effects

    @property
    def mutates(self) -> bool:
        """Whether an interrupted call may have changed something; True if the effects are unknown."""
        return self.effects is None or not self.effects <= READING_EFFECTS

    def mutates_with(self, args: Args) -> bool:
        """Like `mutates`, for one call: a request that only reads changes nothing."""
        if self.reaches is None or self.effects is None or self.effects - READING_EFFECTS - {"network"}:
            return self.mutates
        return self.reaches(args).sends

    @property
    def only_reads_here(self) -> bool:
        """Whether the effects are known, and none changes this machine; `Reach.sends` says what a call changes at its
        hosts."""
        return self.effects is not None and self.effects <= READING_EFFECTS | {"network", "external"}

    @property
    def definition_only(self) -> bool:
        return self.execute is None and self.propose is None

    def secret_scopes(self, args: Args) -> tuple[str, ...]:
        """The secret scopes that a call with these arguments uses."""
        referenced = () if self.referenced_secrets is None else self.referenced_secrets(args)
        return (*self.required_secret_scopes, *referenced)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def in_group(self, group: str) -> bool:
        """Whether it declares the group or has it as a prefix: `k8s.pods` is in `k8s`, `mcp:hub:issue` in `mcp`."""
        return group in self.groups or any(name.startswith((f"{group}.", f"{group}:")) for name in self.names)

    def strict_problems(self) -> list[str]:
        """Return how the schema breaks the strict rules, if `strict` is set."""
        return strict_problems(self.input_schema) if self.strict else []

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


_COLLECTIONS: Final[dict[str, Callable[[Iterable[str]], Any]]] = {
    "effects": frozenset,
    "capabilities": frozenset,
    "required_secret_scopes": tuple,
    "aliases": tuple,
    "timeout_in_seconds": tuple,
    "groups": tuple,
    "profiles": tuple,
    "presets": tuple,
    "sources": tuple,
    "sinks": tuple,
}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "effects": tuple(sorted(EFFECTS)),
    "runs": get_args(Runs),
    "keeps": get_args(Keeps),
    "profiles": get_args(Profile),
    "presets": get_args(BuiltInPreset),
    "sources": get_args(Place),
    "sinks": get_args(Place),
}
_FUNCTIONS: Final = (
    "execute", "propose", "apply", "touches", "reaches", "referenced_secrets", "unavailable", "format_preview",
    "summary",
)  # fmt: skip


def _checked_collection(tool: Tool, name: str, collect: Callable[[Iterable[str]], Any]) -> Any:
    """Convert a field of names to its collection type. Rejects a bare string, which would be split into letters."""
    given: Any = getattr(tool, name)
    if given is None and name == "effects":
        return None
    known = f" Choose from: {', '.join(_CHOICES[name])}." if name in _CHOICES else ""
    if isinstance(given, str):
        raise ToolError(f"The {name} of tool '{tool.name}' must be a list: use {name}=({given!r},).{known}")
    items: list[Any] | None = [*given] if isinstance(given, Iterable) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise ToolError(f"The {name} of tool '{tool.name}' must be a list of names, not {given!r}.{known}")
    return collect(items)


def _checked_choice(tool: Tool, name: str, value: object, known: Sequence[str]) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise ToolError(f"The {name} of tool '{tool.name}' cannot be {value!r}. {suggest_choices(value, known)}")


def suggest_choices(given: object, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the closest match and the list of valid words."""
    listed = [str(word) for word in known]
    meant = did_you_mean(str(given), listed)
    return f"{f'Did you mean {meant!r}? ' if meant else ''}Choose from: {', '.join(listed)}."


def _check_functions(tool: Tool) -> None:
    for name in _FUNCTIONS:
        given: object = getattr(tool, name)
        if given is not None and not callable(given):
            raise ToolError(f"The `{name}` of tool '{tool.name}' must be a function, not {type(given).__name__}.")
    timeout: Any = tool.timeout
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and isfinite(timeout) and timeout > 0):
        raise ToolError(f"The timeout of tool '{tool.name}' must be a number of seconds above 0, not {timeout!r}.")
    if tool.runs == "process" and takes_callback(tool.execute):
        raise ToolError(f"Tool '{tool.name}' runs in its own process, so its `execute` cannot take a callback.")


def parameters_by_position(function: Callable[..., Any]) -> list[Parameter] | None:
    """Return the positional parameters of a function; None if unknown or variadic."""
    try:
        parameters = signature(function, follow_wrapped=False).parameters.values()
    except (ValueError, TypeError):
        return None
    if any(item.kind is item.VAR_POSITIONAL for item in parameters):
        return None
    return [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]


def takes_callback(execute: Callable[..., Any] | None) -> bool:
    """Whether `execute` takes a callback: its third parameter is named `callback` or has no default."""
    third = [] if execute is None else (parameters_by_position(execute) or [])[2:3]
    return any(item.name == "callback" or item.default is item.empty for item in third)


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether a function, without its decorators, is a coroutine function and so needs no thread."""
    return function is not None and iscoroutinefunction(unwrap(function))


FIELDS: Final = frozenset(name for name, item in Tool.__dataclass_fields__.items() if item.init)
"""The fields of a tool definition."""
_SEED_SPELLINGS: Final = {
    "inputSchema": "input_schema",
    "parameters": "input_schema",
    "outputSchema": "output_schema",
    "requiredSecretScopes": "required_secret_scopes",
    "run": "propose",
    "execute_approved": "apply",
}


def define(definition: Mapping[str, Any] | None = None, /, **fields: Any) -> Tool:
    """Make a tool from a plain definition (name, JSON Schema, callable). Also accepts camelCase field names."""
    given = {**(definition or {}), **fields}
    later = given.pop("async", None)
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = _SEED_SPELLINGS.get(key, key)
        if name not in FIELDS:
            raise ToolError(f"A tool definition has no field '{key}'. {suggest_choices(key, sorted(FIELDS))}")
        if value is not None:
            values[name] = value
    if "name" not in values:
        raise ToolError("A tool definition needs a `name`.")
    schema = values.get("input_schema")
    if schema is not None and not isinstance(schema, Mapping):
        raise InvalidSchema(f"The input schema of '{values['name']}' must be an object, not {type(schema).__name__}.")
    if later is not None:
        values["execute"] = _with_declared_async(values["name"], values.get("execute"), later)
    return Tool(**values)


def _with_declared_async(name: str, execute: Any, later: object) -> Any:
    """Return `execute` adapted to the definition's `async` field: with a callback, or without."""
    if not isinstance(later, bool):
        raise ToolError(f"The `async` of tool '{name}' must be true or false, not {later!r}.")
    if not callable(execute):
        return execute
    if later and not takes_callback(execute) and not is_async(execute):
        raise ToolError(
            f"Tool '{name}' sets `async`, but its `execute` takes no callback: use execute(args, ctx, callback)."
        )
    if later or not takes_callback(execute):
        return execute

    def without_callback(args: Args, ctx: Context) -> Any:
        return execute(args, ctx)

    return without_callback


__all__ = ["Apply", "Context", "Effect", "Execute", "Outcome", "Propose", "Reach", "Runs", "Tool", "define"]
