"""Declaration of a configuration option: type, documentation, trust rule.

The trust rule defines what an untrusted layer may do: tighten at once, never loosen. An option without a rule keeps its
value, so a new option is safe by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, ValidationError, convert, structs, to_builtins

from holdfast.contract.errors import ConfigError
from holdfast.text.suggest import did_you_mean

S = TypeVar("S", bound=Struct)
Table = dict[str, Any]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Names = Annotated[tuple[Name, ...], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
FUNCTION_PATH: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
PRESET_NAME: Final = r"^\$[A-Za-z0-9_.-]+$"
# Checked by hand where a layer is read: `Meta(pattern=...)` in a union with a tuple crashes msgspec 0.22.
_BARE: Final = re.compile(r"[A-Za-z0-9_$-]+", re.ASCII)
_AT: Final = re.compile(r" - at (?:`key` in )?`\$?(.*)`$")
_MAX_SHOWN: Final = 60


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration."""


class Mark(Enum):
    COMPUTED = "computed"
    """Computed by `merge` and `layers`; no file may set it."""
    WHOLE = "whole"
    """A list that is one value (words may repeat), or a table whose entries are: layers replace, never edit it."""
    ADDS = "adds"
    """A plain list is appended to the one below; `{ set = [...] }` replaces it."""


class Synonyms(NamedTuple):
    """Values of other tools that are accepted for this option."""

    words: Mapping[str, str]


class TrustRule(NamedTuple):
    """What an untrusted layer may do to an option."""

    may: str
    """Completes "an untrusted file may …" in the reference."""
    tighten: Callable[[Any, Any], Any]
    """`tighten(base, wanted)` returns a value at least as strict as both."""


class Approves(NamedTuple):
    """Which calls an option can let run without asking. An option without this declaration approves nothing."""

    calls: str
    """Completes "can approve …" in the reference."""
    describe: Callable[[Any, Any], Iterable[str]]
    """`describe(before, after)` returns sentences about what a change lets run or reach in addition."""


class Option(NamedTuple):
    """The declaration of one field."""

    name: str
    kind: Any
    """Its type with msgspec's constraints, without the other annotations."""
    doc: str
    trust: TrustRule
    approves: Approves
    marks: frozenset[Mark]
    field: structs.FieldInfo
    synonyms: Mapping[str, str] = {}
    """Accepted synonyms and the values they stand for."""

    def default(self) -> Any:
        """Return the default, or `NODEFAULT` if a value is required."""
        made = self.field.default_factory
        return self.field.default if made is NODEFAULT else made()

    @property
    def is_edited(self) -> bool:
        """Whether a layer can edit the list below it."""
        return is_list(self.kind) and Mark.WHOLE not in self.marks


@cache
def all_options(shape: type[Struct]) -> Mapping[str, Option]:
    """Return every field of a struct."""
    return {item.name: _option(item) for item in structs.fields(shape)}


@cache
def options(shape: type[Struct]) -> Mapping[str, Option]:
    """Return every field that a file may set."""
    return {name: option for name, option in all_options(shape).items() if Mark.COMPUTED not in option.marks}


def _option(item: structs.FieldInfo) -> Option:
    bare, *notes = get_args(item.type) if get_origin(item.type) is Annotated else (item.type,)
    limits = [note for note in notes if isinstance(note, Meta)]
    return Option(
        name=item.name,
        kind=cast(Any, Annotated)[(bare, *limits)] if limits else bare,
        doc=next((note for note in notes if isinstance(note, str)), ""),
        trust=next((note for note in notes if isinstance(note, TrustRule)), SECTION if is_section(bare) else KEEP),
        approves=next((note for note in notes if isinstance(note, Approves)), APPROVES_NOTHING),
        marks=frozenset(note for note in notes if isinstance(note, Mark)),
        field=item,
        synonyms=next((note.words for note in notes if isinstance(note, Synonyms)), dict[str, str]()),
    )


def file_value(value: Any) -> Any:
    """Return the value as a file would contain it; tables without the options that have their default."""
    if isinstance(value, Struct):
        fields = all_options(type(value)).values()
        given = {option.name: (getattr(value, option.name), option.default()) for option in fields}
        return {name: file_value(found) for name, (found, default) in given.items() if found != default}
    if isinstance(value, dict):
        return {name: file_value(item) for name, item in cast(dict[str, Any], value).items()}
    if isinstance(value, tuple):
        return [file_value(item) for item in cast(tuple[Any, ...], value)]
    return to_builtins(value)


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def is_list(kind: Any) -> bool:
    """Whether the type is a list of names, which layers can edit."""
    return any(get_origin(option) is tuple for option in alternatives(kind)) and not is_table_list(kind)


def is_table_list(kind: Any) -> bool:
    """Whether the type is a list of tables, to which every layer appends."""
    return any(get_origin(option) is tuple and is_section(get_args(option)[0]) for option in alternatives(kind))


def entry_struct(kind: Any) -> type[Struct] | None:
    """Return the struct of the entries of a table by name, if the type is one."""
    entry = get_args(kind)[1] if get_origin(kind) is dict else None
    return entry if is_section(entry) else None


def choices(kind: Any) -> list[str]:
    """Return the words that a value of this type can be (literals and enum values)."""
    found: list[str] = []
    for option in alternatives(kind):
        if get_origin(option) is Literal:
            found += map(str, get_args(option))
        elif isinstance(option, type) and issubclass(option, Enum):
            found += [str(member.value) for member in option]
    return found


def alternatives(kind: Any) -> list[Any]:
    """Return the members of a union, or the type itself."""
    if get_origin(kind) is Annotated:
        return alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for option in get_args(kind) for inner in alternatives(option)]
    return [kind]


def tighten_struct(base: S, wanted: S) -> S:
    """Return `base` with each field tightened towards `wanted` by its own rule."""
    own = all_options(type(base)).values()
    if any(o.trust is IDENTITY and getattr(base, o.name) != getattr(wanted, o.name) for o in own):
        return base
    changes = {o.name: o.trust.tighten(getattr(base, o.name), getattr(wanted, o.name)) for o in own}
    return structs.replace(base, **changes)


def _base(base: Any, wanted: Any) -> Any:
    return base


def _wanted(base: Any, wanted: Any) -> Any:
    return wanted


def _both(base: bool, wanted: bool) -> bool:
    return base and wanted


def _either(base: bool, wanted: bool) -> bool:
    return base or wanted


def _common(base: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the items that both name literally. Paths are not compared: a subfolder may become a symlink elsewhere."""
    return tuple(item for item in base if item in wanted)


def _hosts(base: str | tuple[str, ...], wanted: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if base == "off" or wanted == "off":
        return "off"
    if isinstance(base, str):
        return wanted
    return base if isinstance(wanted, str) else _common(base, wanted)


def _own_hosts(base: Any, wanted: Any) -> Any:
    """None means the value of `sandbox.network`, and only `off` is certain to be at least as strict as that."""
    if base is None or wanted is None:
        return wanted if wanted == "off" else base
    return _hosts(base, wanted)


def _patterns(base: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Intersect patterns literally; only `*` is known to include all others."""
    if "*" in base:
        return wanted
    return base if "*" in wanted else _common(base, wanted)


def union(base: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*base, *wanted)))


def _hide(base: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Add patterns that hide more. Exceptions (`!`) are dropped, because they would reveal files."""
    return union(base, [item for item in wanted if not item.startswith("!")])


KEEP: Final = TrustRule("not change it", _base)
USER_ONLY: Final = TrustRule("not change it, even when trusted", _base)
"""Accepted only from user-level configuration; `layers.drop_user_only` removes it from every other layer."""
IDENTITY: Final = TrustRule("not change it", _base)
"""Identifies an entry: if an untrusted layer changes it, that layer's whole entry is ignored."""
NARROWED: Final = TrustRule("narrow it", _base)
"""`layers` appends the wanted value to the `narrow` list of its section, which acts as an additional filter."""
SECTION: Final = TrustRule("", tighten_struct)
FREE: Final = TrustRule("change it", _wanted)
SWITCH_OFF: Final = TrustRule("switch it off", _both)
SWITCH_ON: Final = TrustRule("switch it on", _either)
ADD: Final = TrustRule("add to it", union)
HIDE: Final = TrustRule("add to it, but no exceptions (`!`)", _hide)
TAKE_OUT: Final = TrustRule("take out of it", _common)
HOSTS: Final = TrustRule("take hosts out, or switch it off", _hosts)
OWN_HOSTS: Final = TrustRule("take hosts out, or switch it off", _own_hosts)
PATTERNS: Final = TrustRule("take out of it", _patterns)


def lower_limit(unset: float = float("inf")) -> TrustRule:
    """A limit that an untrusted layer may lower; None means `unset`."""

    def smaller(base: float | None, wanted: float | None) -> float | None:
        return base if wanted is None else min(unset if base is None else base, wanted)

    return TrustRule("lower it", smaller)


LOWER: Final = lower_limit()


def ordered(*order: object) -> TrustRule:
    """Values from strict to lax: the stricter one wins. Values that are not listed are the laxest."""

    def earlier(base: object, wanted: object) -> object:
        return min(base, wanted, key=lambda value: order.index(value) if value in order else len(order))

    return TrustRule(f"move it towards `{order[0]}`", earlier)


def per_entry(may: str, *, new: Callable[[Any], Any], rule: Callable[[Any, Any], Any] = tighten_struct) -> TrustRule:
    """A table of named entries: `rule` tightens existing ones, `new` returns what is accepted of a new one, or None."""

    def merged(base: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
        entries = {name: rule(base[name], value) if name in base else new(value) for name, value in wanted.items()}
        return {**base, **{name: value for name, value in entries.items() if value is not None}}

    return TrustRule(may, merged)


def _describe_nothing(before: Any, after: Any) -> Iterable[str]:
    return ()


APPROVES_NOTHING: Final = Approves("nothing", _describe_nothing)


def describe_loosening(before: Struct, after: Struct) -> list[str]:
    """Return sentences about what will run without asking, or can be reached, with `after` but not with `before`."""
    sentences: list[str] = []
    for option in all_options(type(before)).values():
        old, new = getattr(before, option.name), getattr(after, option.name)
        if old != new:
            is_table = is_section(option.kind)
            sentences += describe_loosening(old, new) if is_table else option.approves.describe(old, new)
    return sentences


def join_names(names: Iterable[str]) -> str:
    """Return "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def names_added(before: Any, after: Any) -> list[str]:
    """Return the names that `after` has and `before` has not. A word such as `off` counts as an empty list."""
    old, new = (() if isinstance(names, str) else names for names in (before, after))
    return [name for name in new if name not in old]


def describe_added(sentence: str, *, removed: bool = False) -> Callable[[Any, Any], Iterable[str]]:
    """Return a function that formats `sentence` with the names added to a list, or with `removed` those removed."""

    def describe(before: Any, after: Any) -> Iterable[str]:
        names = names_added(after, before) if removed else names_added(before, after)
        return [sentence.format(join_names(names))] if names else []

    return describe


def describe_value(sentence: str, *values: object) -> Callable[[Any, Any], Iterable[str]]:
    """Return a function that gives `sentence` if the option gets one of these values."""
    return lambda before, after: [sentence] if after in values else []


def dotted(path: str, key: str) -> str:
    """Return `path.key`, with the key quoted as in TOML and control characters escaped."""
    quoted = key if _BARE.fullmatch(key) else '"' + key.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return f"{path}.{quoted}" if path else quoted


def check_type(value: object, kind: Any, where: str) -> None:
    """Raise `ConfigError` unless the value has this type."""
    try:
        convert(value, kind)
    except ValidationError as error:
        raise ConfigError(_misfit(value, kind, where, str(error))) from None


def not_a_table(where: str, value: object) -> ConfigError:
    return ConfigError(f"{where}: expected a table, got {short_repr(value)}.")


def unknown_option(where: str, key: str, known: Iterable[str]) -> ConfigError:
    names = sorted(known)
    close = did_you_mean(key, names)
    hint = f"Did you mean '{close}'?" if close else f"Options here: {', '.join(names)}."
    return ConfigError(f"{where} is not an option. {hint}")


def short_repr(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]


def _misfit(value: object, kind: Any, where: str, message: str) -> str:
    if (known := choices(kind)) and isinstance(value, str):
        close = did_you_mean(value, known)
        hint = f". Did you mean '{close}'?" if close else "."
        return f"{where}: expected one of {', '.join(known)}, got {short_repr(value)}{hint}"
    at = _AT.search(message)
    return f"{where}{at[1] if at else ''}: {lower_first(_AT.sub('', message))}."
