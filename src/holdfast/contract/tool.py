"""A tool: a name, an `execute`, and what the runtime may know about it before it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction, unwrap
from typing import Any, Final, Literal, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import InvalidSchema, ToolError
from holdfast.contract.names import SERVER, check_name, to_api_name
from holdfast.contract.result import Result
from holdfast.contract.schema import CompiledSchema, JsonSchema, compile_schema, strict_problems
from holdfast.contract.values import Args, digest_of
from holdfast.contract.vocabulary import EFFECTS, READING_EFFECTS, BuiltInPreset, Effect, Profile, Risk

Outcome = Result | str | Mapping[str, Any] | Sequence[Any] | int | float | bool | None
Execute = Callable[..., Outcome | Awaitable[Outcome]]
"""`execute(args)` or `execute(args, ctx)`; sync or async."""
Propose = Callable[[Args, Context], Result | Proposal | Awaitable[Result | Proposal]]
Apply = Callable[[Args, Context], Outcome | Awaitable[Outcome]]
Runs = Literal["inline", "thread", "process"]

EMPTY_OBJECT: Final[JsonSchema] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """What can be done. Only `name` is required; without `execute` it is finished from outside."""

    name: str
    execute: Execute | None = None
    description: str = ""
    input_schema: JsonSchema = field(default_factory=lambda: dict(EMPTY_OBJECT))
    output_schema: JsonSchema | None = None
    propose: Propose | None = None
    """Two-phase tools: say what would happen. Comes with `apply`, instead of `execute`."""
    apply: Apply | None = None
    strict: bool = False
    """Send `strict` to providers that know it."""
    timeout: float | None = None
    """Seconds; None takes the configured default."""
    risk: Risk = Risk.MEDIUM
    effects: frozenset[str] | None = None
    """None means unknown. The empty set means pure: it changes nothing and reads nothing."""
    touches: Callable[[Args], Sequence[str]] | None = None
    """The paths a call will use, from its arguments."""
    capabilities: frozenset[str] = frozenset()
    required_secret_scopes: tuple[str, ...] = ()
    format_preview: Callable[[Args, int], str] | None = None
    summary: Callable[[Args], str] | None = None
    aliases: tuple[str, ...] = ()
    """Its names in other systems: models, documents and lists that use them are understood."""
    argument_aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names of arguments, each with the one in the schema: a caller that uses them is understood."""
    timeout_in_seconds: tuple[str, ...] = ()
    """The aliases under which the argument `timeout` counts seconds; under its other names it counts milliseconds."""
    groups: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ()
    """The profiles it is in. Only what a built-in declares counts: nobody else's tool can put itself into one."""
    presets: tuple[BuiltInPreset, ...] = ()
    """The presets that approve it. As with profiles, only what a built-in declares counts."""
    enabled: bool = True
    """A tool that is not enabled exists only for callers that name it."""
    needs_root: bool = False
    runs: Runs = "thread"
    """Where a sync function runs: `inline` promises that it does not block; `process` can be killed."""
    keeps: Literal["head", "tail"] = "head"
    """Which end of an output that is too long is kept."""
    source: str = "program"
    """Where the tool comes from: program, builtin, an entry point, an MCP server."""

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
            raise ToolError(f"Tool '{self.name}' has `execute` and `propose`: give one of them.")
        if self.effects is not None and (unknown := self.effects - EFFECTS):
            raise ToolError(
                f"Tool '{self.name}' declares unknown effects {sorted(unknown)}; known are {sorted(EFFECTS)}."
            )
        put, foreign, output = object.__setattr__, self.source.startswith(SERVER), self.output_schema
        what = f"The input schema of '{self.name}'"
        put(self, "schema", compile_schema(self.input_schema, what, renames=self.argument_aliases, foreign=foreign))
        what = f"The output schema of '{self.name}'"
        put(self, "output_validator", None if output is None else compile_schema(output, what, foreign=foreign))
        put(self, "api_name", to_api_name(self.name))
        put(self, "_digest", "")

    @property
    def digest(self) -> str:
        """Of everything that says what the tool is: approvals are bound to it. Computed when first needed."""
        if not self._digest:
            effects = None if self.effects is None else sorted(self.effects)
            said = [self.name, self.description, self.input_schema, self.output_schema, self.risk, effects, self.source]
            object.__setattr__(self, "_digest", digest_of(said))
        return self._digest

    @property
    def pure(self) -> bool:
        return self.effects is not None and not self.effects

    @property
    def mutates(self) -> bool:
        """Whether an interrupted call may have changed something; unknown effects count as yes."""
        return self.effects is None or not self.effects <= READING_EFFECTS

    @property
    def definition_only(self) -> bool:
        return self.execute is None and self.propose is None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def in_group(self, group: str) -> bool:
        """Whether it declares the group, or is named after it: `k8s.pods` is in `k8s`, `mcp:hub:issue` in `mcp`."""
        return group in self.groups or any(name.startswith((f"{group}.", f"{group}:")) for name in self.names)

    def strict_problems(self) -> list[str]:
        """What keeps the schema from meeting the strict rules, if the tool asks for strict."""
        return strict_problems(self.input_schema) if self.strict else []

    def with_(self, **changes: Any) -> Tool:
        """A copy with some fields changed."""
        return replace(self, **changes)


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether a function is a coroutine function (through decorators), so that it needs no thread."""
    return function is not None and iscoroutinefunction(unwrap(function))


_FIELDS: Final = frozenset(name for name, item in Tool.__dataclass_fields__.items() if item.init)
_SEED_SPELLINGS: Final = {
    "inputSchema": "input_schema", "parameters": "input_schema", "outputSchema": "output_schema",
    "requiredSecretScopes": "required_secret_scopes", "run": "propose", "execute_approved": "apply",
}


def define(definition: Mapping[str, Any] | None = None, /, **fields: Any) -> Tool:
    """A tool from a plain definition (name, JSON Schema, callable), in holdfast's or a seed's spelling."""
    given = {**(definition or {}), **fields}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = _SEED_SPELLINGS.get(key, key)
        if name not in _FIELDS:
            raise ToolError(f"A tool definition has no field '{key}'. Fields are: {', '.join(sorted(_FIELDS))}.")
        if value is not None:
            values[name] = value
    for name in ("effects", "capabilities"):
        if name in values:
            values[name] = frozenset(cast(Iterable[str], values[name]))
    for name in ("required_secret_scopes", "aliases", "timeout_in_seconds", "groups", "profiles", "presets"):
        if name in values:
            values[name] = tuple(cast(Iterable[str], values[name]))
    if "risk" in values:
        values["risk"] = Risk(values["risk"])
    if "name" not in values:
        raise ToolError("A tool definition needs a `name`.")
    schema = values.get("input_schema")
    if schema is not None and not isinstance(schema, Mapping):
        raise InvalidSchema(f"The input schema of '{values['name']}' must be an object, not {type(schema).__name__}.")
    return Tool(**values)


__all__ = ["Apply", "Context", "Effect", "Execute", "Outcome", "Propose", "Runs", "Tool", "define"]
