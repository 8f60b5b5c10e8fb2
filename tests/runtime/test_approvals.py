"""Resolvers of programs and of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Runtime, State
from holdfast.runtime.approvals import load_resolvers
from tests.runtime.support import recorder, run

MODULE = """
def careful(tool, args, ctx):
    return "deny" if args.get("text") == "evil" else "approve"

first = {"resolve": lambda tool, args, ctx: "ask" if args.get("text") == "odd" else None, "priority": 300}

def resolve(tool, args, ctx):
    return None

async def wrong(tool, args, ctx):
    return "deny"
"""
Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with these resolvers for this test; returns the entry point group."""
    group = f"holdfast.resolvers.test{abs(hash(tmp_path))}"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def install(**points: str) -> str:
        module = f"acme_{abs(hash(tmp_path))}"
        (tmp_path / f"{module}.py").write_text(MODULE)
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        lines = [f"{name} = {module}{target}" for name, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        return group

    return install


@pytest.mark.spec("A2")
def test_resolvers_of_packages_can_ask_and_deny_but_not_approve(install: Install) -> None:
    note, seen = recorder()
    runtime, warnings = Runtime(tools=[note]), list[str]()
    group = install(careful=":careful", first=":first", module="")
    load_resolvers(runtime.approvals.chain, warnings.append, project=None, group=group)
    assert warnings == []
    names = [resolver.name for resolver in runtime.approvals.chain.get_all() if resolver.name.startswith("acme:")]
    assert names == ["acme:first", "acme:careful", "acme:module"]
    denied = run(runtime.explain("note", {"text": "evil"})).decision
    assert (denied.verdict, denied.source) == ("deny", "acme:careful")
    asked = run(runtime.explain("note", {"text": "odd"})).decision
    assert (asked.verdict, asked.source) == ("ask", "acme:first")
    assert run(runtime.explain("note", {"text": "fine"})).decision.verdict == "ask", "its approval does not count"
    assert run(runtime.call("note", {"text": "evil"})).state is State.DENIED
    assert seen == []


@pytest.mark.spec("A2")
@pytest.mark.parametrize("on_error", ["skip", "ask"])
def test_a_packages_resolver_that_asks_does_not_override_a_later_denial(install: Install, on_error: str) -> None:
    note, _ = recorder()
    approval = {"auto_approve": ["$none"], "presets": {"$none": {"deny": ["note"]}}, "on_error": on_error}
    runtime = Runtime(tools=[note], config=Config.from_dict({"approval": approval}))
    assert run(runtime.explain("note", {"text": "odd"})).decision.verdict == "deny"
    load_resolvers(runtime.approvals.chain, pytest.fail, project=None, group=install(first=":first"))
    assert run(runtime.explain("note", {"text": "odd"})).decision.verdict == "deny"
    assert run(runtime.call("note", {"text": "odd"})).state is State.DENIED


@pytest.mark.spec("A2", "A3")
def test_a_broken_resolver_is_a_warning_and_one_of_a_package_in_the_project_is_skipped(
    install: Install, tmp_path: Path
) -> None:
    runtime, warnings = Runtime(), list[str]()
    group = install(wrong=":wrong", missing=":nothing")
    load_resolvers(runtime.approvals.chain, warnings.append, project=None, group=group)
    assert "The resolver 'missing'" in warnings[0] and "AttributeError" in warnings[0]
    assert "needs a synchronous function" in warnings[1]
    warnings.clear()
    load_resolvers(runtime.approvals.chain, warnings.append, project=tmp_path, group=group)
    assert len(warnings) == 2 and "is inside the project and not installed" in warnings[0]
    assert not any(resolver.name.startswith("acme:") for resolver in runtime.approvals.chain.get_all())


@pytest.mark.spec("A4")
def test_a_program_can_register_and_remove_a_resolver() -> None:
    note, seen = recorder()
    runtime = Runtime(tools=[note])

    def office_hours(tool: str, args: Any, ctx: Any) -> str | None:
        return "approve" if tool == "note" and ctx.caller.interface == "python" else None

    handle = runtime.approvals.register("office-hours", office_hours, description="The office is open.")
    assert run(runtime.call("note", {"text": "x"})).success
    assert handle.remove()
    assert run(runtime.call("note", {"text": "y"})).state is State.DENIED
    assert seen == [{"text": "x"}]
