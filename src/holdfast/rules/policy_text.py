"""The rules in force in words and as TOML, for every interface that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.config.config import ApprovalConfig, Config
from holdfast.config.layers import LayerReport
from holdfast.config.options import Mark, Section, all_options, describe_loosening, file_value, is_table_list
from holdfast.text.toml import toml_lines, toml_value

SECTIONS: Final = ("tools", "approval", "confirmation")
"""The configuration sections that decide about calls."""
_STRICTEST: Final = Config(approval=ApprovalConfig(auto_approve=()))
"""Approves no tool by name. A configuration is described as the difference from this one."""
_COMPUTED: Final = {
    "excluded": "removed from auto_approve",
    "removed": "removed from auto_approve by an earlier list",
    "narrow": "limited by the machine or by files that are not trusted, to",
}
"""Options computed from several files, with the comment on each."""


def policy_words(config: Config) -> list[str]:
    """Return what runs without asking, and the limits of that, each as one phrase."""
    return [*describe_loosening(_STRICTEST, config), *_limits(config.approval)]


def _limits(approval: ApprovalConfig) -> Iterator[str]:
    for names in approval.narrow:
        if names != approval.auto_approve:
            listed = toml_value(file_value(names))
            yield f"but only if auto_approve = {listed} of the machine or of an untrusted file approves it too"


def policy_toml(config: Config) -> Iterator[str]:
    """Yield every option as TOML lines, with a comment on those that are unset or at their default."""
    for section in SECTIONS:
        found: Section = getattr(config, section)
        yield f"[{section}]"
        tables: list[str] = []
        for option in all_options(type(found)).values():
            value = getattr(found, option.name)
            if Mark.COMPUTED in option.marks:
                if value != option.default() and option.name in _COMPUTED:
                    yield f"# {_COMPUTED[option.name]}: {toml_value(file_value(value))}"
            elif value is None:
                yield f"# {option.name} is not set"
            elif value == option.default():
                yield f"{option.name} = {toml_value(file_value(value))}  # default"
            elif is_table_list(option.kind):
                tables += ["", *toml_lines(section, option.name, file_value(value))]
            else:
                yield from toml_lines(section, option.name, file_value(value))
        yield from (*tables, "")


def trust_note(layer: LayerReport) -> str:
    """Say what an untrusted layer can still do; empty for a trusted one."""
    if layer.trusted:
        return ""
    ignored = ", ".join(layer.ignored)
    return f"untrusted: it can only tighten{f'; as limits only: {ignored}' if ignored else ''}"
