"""Property test: no option approves a call that its declaration does not mention."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from holdfast import Config, Decision, Runtime, Tool, Verdict
from holdfast.config.config import Preset
from holdfast.config.layers import apply_untrusted
from holdfast.config.options import Option, options
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, NEEDS_CONTAINMENT, RUNS_COMMANDS
from holdfast.contract.errors import ConfigError
from holdfast.rules.decider import CONFIRMATION, MAX_RISK
from holdfast.rules.policy import ToolMatcher
from holdfast.rules.resolvers import BUILT_IN_PRESETS
from tests.runtime.random_configs import CALLS, Setting, laid_over, layers, project_in, runtime_for, setting
from tests.runtime.support import run
from tests.soak import rounds

RANDOM = settings(max_examples=rounds(25, 300), deadline=None)


REMOVED: list[Setting] = [
    ("approval.auto_approve", {"remove": ["shell.exec", "calculator"]}),
    ("approval.auto_approve_sandboxed", True),
]
SAYS_NOTHING = "tests.runtime.random_configs:says_nothing"
MAKE = {"rule": "make test", "verdict": "approve"}


class Change:
    """An option that is added to a configuration."""

    def __init__(self, before: Config, added: Setting, *, user_level: bool) -> None:
        path = added[0].split(".")
        self.before = before
        self.after = laid_over(before, added, user_level=user_level)
        top = options(Config)[path[0]]
        self.option: Option = top if len(path) == 1 else options(top.kind)[path[1]]
        self.values = [_at(before, path), _at(self.after, path)]

    def speaks_of(self, tool: Tool, args: Any, told: Decision, runtime: Runtime) -> bool:
        """Whether the option declares that it can approve such a call; `told` is the decision without it."""
        calls, capabilities = self.option.approves.calls, tool.capabilities
        effects = tool.effects
        match calls:
            case "calls of the tools it names":
                return self._names(tool)
            case "calls of tools that were not available":
                return runtime.access.usable(tool.name, runtime.caller) is None
            case "calls that run commands":
                return not capabilities.isdisjoint({RUNS_COMMANDS, NEEDS_CONTAINMENT})
            case "shell commands in the sandbox":
                return AUTO_APPROVED_IF_SANDBOXED in capabilities
            case "calls that use files or run commands":
                return tool.touches is not None or effects is None or bool(effects & {"fs.read", "fs.write", "process"})
            case "every call that no rule covers":
                return told.source == "default"
            case "commands that start with the words of a rule":
                rules = self.after.approval.commands
                words = [rule.rule.split()[0] for rule in rules if rule.verdict == "approve"]
                return RUNS_COMMANDS in capabilities and any(word in args.get("command", "") for word in words)
            case "calls above the risk limit":
                return told.source == MAX_RISK
            case "calls that would be confirmed":
                return told.source == CONFIRMATION
            case "calls that need approval because a resolver failed":
                return "failed" in told.reason
            case "calls of tools that need its scopes":
                return bool(tool.required_secret_scopes)
            case other:
                assert other == "nothing", other
                return False

    def _names(self, tool: Tool) -> bool:
        names = frozenset(name for value in self.values for name in _strings(value))
        if any(":" in name and name.startswith("tests.") for name in names):
            return True  # a function decides about every call
        presets = {**self.before.approval.presets, **self.after.approval.presets}
        for name in names:
            if name in presets and ToolMatcher(_strings(presets[name])).match(tool) is not None:
                return True
            if name in BUILT_IN_PRESETS and not BUILT_IN_PRESETS[name].isdisjoint(tool.presets):
                return True
        shell = "$shell-readonly" in names and RUNS_COMMANDS in tool.capabilities
        return shell or ToolMatcher(names).match(tool) is not None


def _at(config: Config, path: Iterable[str]) -> Any:
    value: Any = config
    for key in path:
        value = getattr(value, key)
    return value


def _strings(value: Any) -> Iterator[str]:
    """Every name in a value, including those in presets and tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Preset):
        yield from (*value.approve, *value.deny)
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from (key, *_strings(inner))
    elif isinstance(value, tuple | list):
        for inner in cast("tuple[Any, ...]", value):
            yield from _strings(inner)


def judged(config: Config, root: Path, *, works: bool) -> tuple[list[Decision], Runtime]:
    """The decision about every call."""
    try:
        runtime = runtime_for(config, root, sandbox_works=works)
    except ConfigError:
        assume(False)
        raise

    async def work() -> list[Decision]:
        return [await runtime.judge(name, args) for name, args in CALLS]

    return run(work()), runtime


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield project_in(Path(folder))


@pytest.mark.spec("A20")
@pytest.mark.timeout(600)
@RANDOM
@given(first=layers, added=setting, user_level=st.booleans(), works=st.booleans())
@example(first=[], added=("approval.auto_approve", []), user_level=True, works=True)
@example(first=REMOVED, added=("approval.auto_approve", ["$readonly"]), user_level=False, works=True)
@example(first=REMOVED, added=("approval.auto_approve", SAYS_NOTHING), user_level=True, works=True)
@example(first=[], added=("approval.commands", [MAKE]), user_level=True, works=True)
@example(first=[], added=("sandbox.mode", "off"), user_level=True, works=False)
def test_an_added_option_approves_only_calls_that_it_declares(
    root: Path, first: list[Setting], added: Setting, user_level: bool, works: bool
) -> None:
    change = Change(laid_over(Config(), *first), added, user_level=user_level)
    now, runtime = judged(change.before, root, works=works)
    then, _ = judged(change.after, root, works=works)
    for (name, args), before, after in zip(CALLS, now, then, strict=True):
        if before.verdict is Verdict.APPROVE or after.verdict is not Verdict.APPROVE:
            continue
        tool = runtime.registry.find(name)
        assert tool is not None
        assert change.speaks_of(tool, args, before, runtime), (added, name, args, before, after)


@pytest.mark.spec("A20", "A2")
@pytest.mark.timeout(600)
@RANDOM
@given(first=layers, more=layers, works=st.booleans())
@example(first=[("sandbox.mode", "off")], more=[("sandbox.mode", "required")], works=True)
def test_an_untrusted_layer_approves_no_call(
    root: Path, first: list[Setting], more: list[Setting], works: bool
) -> None:
    before = laid_over(Config(), *first)
    after = apply_untrusted(before, laid_over(before, *more, user_level=False))
    # A layer may switch the sandbox on, which contains calls that the user's own list approves only if contained.
    contained = structs.replace(before, sandbox=structs.replace(before.sandbox, mode=after.sandbox.mode))
    now, _ = judged(contained, root, works=works)
    then, _ = judged(after, root, works=works)
    for call, without, told in zip(CALLS, now, then, strict=True):
        approved = told.verdict is Verdict.APPROVE
        assert not approved or without.verdict is Verdict.APPROVE, (call, without, told)
