"""Finding, listing, replacing and removing tools."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Thread

import pytest

from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import DuplicateTool, InvalidSchema
from holdfast.contract.tool import Tool
from holdfast.registry.registry import Registry
from holdfast.registry.source_loader import Handle
from tests.quick import least


def named(name: str, *aliases: str, source: str = "program", needs_root: bool = False) -> Tool:
    return Tool(name=name, aliases=aliases, source=source, needs_root=needs_root)


class Everything:
    def compile(self, caller: Caller) -> Everything:
        return self

    def allows(self, tool: Tool) -> bool:
        return True

    def decide(self, tool: Tool) -> Decision:
        return Decision(Verdict.APPROVE, "test", "everything")

    def visible(self, tools: Iterable[Tool]) -> list[Tool]:
        return list(tools)


@pytest.mark.spec("R2")
def test_a_handle_removes_its_registration_once() -> None:
    registry = Registry()
    handle = registry.register([named("a", "first"), named("b")])
    assert handle.remove() is True
    assert handle.remove() is False
    assert registry.list() == () and registry.find("first") is None


@pytest.mark.spec("R2")
def test_composed_handles_are_removed_in_order_and_none_is_ignored() -> None:
    order: list[int] = []
    both = Handle.compose(Handle(lambda: order.append(1)), None, Handle(lambda: order.append(2)))
    assert (both.remove(), both.remove()) == (True, False)
    assert order == [1, 2]


@pytest.mark.spec("R2")
def test_a_duplicate_name_is_refused_unless_replaced() -> None:
    registry = Registry()
    old, new = named("file.read", "read"), named("file.read")
    registry.register(old)
    with pytest.raises(DuplicateTool, match=r"already a tool 'file\.read'\. Register with replace=True"):
        registry.register(new)
    with pytest.raises(DuplicateTool):
        registry.register(old)
    assert registry.get("file.read") is old
    registry.register(new, replace=True)
    assert registry.get("file.read") is new
    assert registry.get("read") is None, "the alias was removed with its tool"


@pytest.mark.spec("R2")
def test_the_handle_of_a_replaced_tool_does_not_remove_its_successor() -> None:
    registry = Registry()
    first = registry.register(named("a"))
    new = named("a")
    second = registry.register(new, replace=True)
    assert first.remove()
    assert registry.get("a") is new
    second.remove()
    assert registry.get("a") is None


@pytest.mark.spec("R2", "R7")
@pytest.mark.parametrize(
    ("taken", "newcomer", "words"),
    [
        (named("file.read", "read"), named("read"), "name 'read' of tool 'read' is taken by tool 'file.read'"),
        (named("file.read", "read"), named("other", "read"), "alias 'read' of tool 'other' is taken by"),
        (named("read"), named("other", "read"), "alias 'read' of tool 'other' is taken by tool 'read'"),
        (named("file.read"), named("File.Read"), "taken by tool 'file.read'"),
        (named("file.read", "Read"), named("other", "rEAD"), "taken by tool 'file.read'"),
        (named("file.read"), named("file--read"), "taken by tool 'file.read'"),
        (named("file--read"), named("file.read"), "API name 'file--read' of tool 'file.read' is taken"),
        (named("mcp:a:b"), named("x", "mcp__a__b"), "taken by tool 'mcp:a:b'"),
    ],
)
def test_names_aliases_and_api_names_share_one_case_insensitive_namespace(
    taken: Tool, newcomer: Tool, words: str
) -> None:
    registry = Registry()
    registry.register(taken)
    with pytest.raises(DuplicateTool, match=words):
        registry.register(newcomer)
    assert registry.list() == (taken,)
    with pytest.raises(DuplicateTool, match="taken by"):
        Registry().register([taken, newcomer])


@pytest.mark.spec("R2", "R7")
@pytest.mark.parametrize("newcomer", [named("other", "read"), named("other", "file.read"), named("FILE.READ")])
def test_replace_does_not_apply_to_an_alias_or_another_case(newcomer: Tool) -> None:
    registry = Registry()
    taken = named("file.read", "read")
    registry.register(taken)
    with pytest.raises(DuplicateTool):
        registry.register(newcomer, replace=True)
    assert registry.list() == (taken,)


@pytest.mark.spec("R2")
def test_replacing_by_an_alias_or_api_name_removes_the_whole_tool() -> None:
    registry = Registry()
    registry.register([named("shell.exec", "bash"), named("file.read")])
    registry.register([named("bash"), named("file--read")], replace=True)
    assert registry.names() == ("bash", "file--read")
    assert registry.find("shell.exec") is None


@pytest.mark.spec("R2")
def test_a_refused_batch_replaces_nothing() -> None:
    registry = Registry()
    old = [named("a"), named("b", "bee")]
    registry.register(old)
    revision = registry.revision
    with pytest.raises(DuplicateTool):
        registry.register([named("a"), named("c", "bee")], replace=True)
    with pytest.raises(DuplicateTool):
        registry.register([named("a"), named("a")], replace=True)
    assert registry.list() == tuple(old)
    assert registry.revision == revision


@pytest.mark.spec("R2", "R7")
@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("builtin", "program", True),
        ("builtin", "builtin", True),
        ("builtin", "mcp:evil", False),
        ("builtin", "package:evil", False),
        ("program", "mcp:evil", False),
        ("mcp:a", "mcp:a", True),
        ("mcp:a", "mcp:b", False),
        ("mcp:a", "program", True),
    ],
)
def test_only_the_program_or_the_same_source_may_replace_a_tool(old: str, new: str, allowed: bool) -> None:
    registry = Registry()
    registry.register(named("file.read", source=old))
    if allowed:
        registry.register(named("file.read", source=new), replace=True)
    else:
        with pytest.raises(DuplicateTool, match=f"not by '{new}'"):
            registry.register(named("file.read", source=new), replace=True)
    found = registry.get("file.read")
    assert found is not None and found.source == (new if allowed else old)


@pytest.mark.spec("R2")
def test_the_source_given_at_registration_overrides_the_one_in_the_tool() -> None:
    registry = Registry()
    registry.register(named("x", source="builtin"), source="package:evil")
    found = registry.get("x")
    assert found is not None and found.source == "package:evil"


@pytest.mark.spec("R2", "R5")
def test_a_swap_adds_replaces_and_removes_in_one_change() -> None:
    registry = Registry()
    stays, old, gone = (named(f"mcp:a:{name}", source="mcp:a") for name in ("stays", "old", "gone"))
    registry.register([stays, old, gone, named("other")])
    seen: list[tuple[str, ...]] = []
    registry.on_change(lambda: seen.append(registry.names()))
    revision = registry.revision
    new, fresh = named("mcp:a:old", source="mcp:a"), named("mcp:a:Gone")
    registry.swap([new, fresh], [gone], source="mcp:a")
    assert seen == [("mcp:a:Gone", "mcp:a:old", "mcp:a:stays", "other")]
    assert registry.revision == revision + 1
    assert registry.get("mcp:a:old") is new and registry.get("mcp:a:stays") is stays
    found = registry.get("mcp:a:Gone")
    assert found is not None and found.source == "mcp:a"


@pytest.mark.spec("R2", "R5")
def test_a_refused_swap_changes_nothing_and_an_empty_one_notifies_nobody() -> None:
    registry = Registry()
    mine, theirs = named("mcp:a:x", source="mcp:a"), named("theirs", source="builtin")
    registry.register([mine, theirs])
    told: list[int] = []
    registry.on_change(lambda: told.append(registry.revision))
    revision = registry.revision
    with pytest.raises(DuplicateTool, match="not by 'mcp:a'"):
        registry.swap([named("mcp:a:y"), named("theirs")], [mine], source="mcp:a")
    successor = named("mcp:a:x", source="mcp:a")
    registry.swap([], [successor, named("never.there")], source="mcp:a")
    registry.swap([], [], source="mcp:a")
    assert registry.list() == (mine, theirs)
    assert (registry.revision, told) == (revision, [])


@pytest.mark.spec("R3")
def test_tools_are_found_by_canonical_name_alias_and_api_name() -> None:
    registry = Registry()
    read = named("file.read", "read", "read_file")
    long = named("mcp:server:" + "x" * 150)
    registry.register([read, long])
    for name in ("file.read", "read", "read_file"):
        assert registry.get(name) is registry.find(name) is read
        assert registry.has(name)
    assert registry.find("file--read") is registry.get_by_api_name("file--read") is read
    assert registry.get("file--read") is None and not registry.has("file--read")
    assert registry.get_by_api_name("file.read") is None
    assert registry.get_by_api_name(long.api_name) is long
    assert len(long.api_name) <= 64
    assert registry.find("nope") is None


@pytest.mark.spec("R3")
def test_lists_and_specs_are_sorted_and_cached_until_a_change() -> None:
    registry = Registry()
    strict = Tool(
        name="b",
        description="Bee",
        strict=True,
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        output_schema={"type": "object"},
    )
    registry.register([named("c"), strict, named("a.z")])
    assert [tool.name for tool in registry.list()] == ["a.z", "b", "c"]
    assert registry.list() is registry.list()
    assert registry.specs() == [
        {"name": "a.z", "api_name": "a--z", "description": "", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "b",
            "api_name": "b",
            "description": "Bee",
            "input_schema": strict.input_schema,
            "output_schema": {"type": "object"},
            "strict": True,
        },
        {"name": "c", "api_name": "c", "description": "", "input_schema": {"type": "object", "properties": {}}},
    ]
    before = registry.list()
    registry.register(named("a"))
    assert [tool.name for tool in registry.list()] == ["a", "a.z", "b", "c"]
    assert len(before) == 3


@pytest.mark.spec("R3")
def test_unregister_returns_whether_the_tool_existed() -> None:
    registry = Registry()
    registry.register([named("a", "eh"), named("b.c")])
    assert registry.unregister("eh") is True
    assert registry.unregister("a") is False
    assert registry.unregister("b--c") is False, "API names are for models"
    assert registry.names() == ("b.c",)


@pytest.mark.spec("R3")
def test_the_registry_stores_the_policy() -> None:
    registry = Registry()
    assert registry.get_policy() is None
    policy = Everything()
    revision = registry.revision
    registry.set_policy(policy)
    assert registry.get_policy() is policy
    assert registry.revision > revision, "the visible tools may have changed"


@pytest.mark.spec("R3")
def test_each_change_increases_the_revision_once_and_notifies_the_listeners() -> None:
    registry = Registry()
    seen: list[tuple[int, int]] = []
    handle = registry.on_change(lambda: seen.append((registry.revision, len(registry.list()))))
    registry.register([named("a"), named("b")])
    registry.unregister("a")
    registry.unregister("a")
    registry.set_root(True)
    registry.set_root(False)
    with pytest.raises(DuplicateTool):
        registry.register(named("b"))
    assert seen == [(1, 2), (2, 1), (3, 1)]
    handle.remove()
    registry.unregister("b")
    assert len(seen) == 3


@pytest.mark.spec("R3")
def test_a_failing_listener_gives_a_warning_and_the_others_are_notified() -> None:
    registry = Registry()
    told: list[str] = []

    def fail() -> None:
        raise OSError("gone")

    registry.on_change(fail)
    registry.on_change(lambda: told.append("yes"))
    registry.register(named("a"))
    assert told == ["yes"]
    assert registry.warnings == ["A change listener of the tool registry failed: OSError: gone"]


@pytest.mark.spec("R6")
def test_a_misspelt_name_is_answered_with_a_name_that_the_caller_may_see() -> None:
    registry = Registry()
    read, write = named("file.read", "read"), named("file.reap", "reap")
    registry.register([read, write])
    assert registry.suggest("raed", [read]) == "read"
    assert registry.suggest("reaq", [write]) == "reap"
    assert registry.suggest("reap", [read]) != "reap"
    assert registry.suggest("something.else") is None
    assert str(registry.unknown("raed", [read])) == "There is no tool 'raed'. Did you mean 'read'?"
    assert "'reap'" not in str(registry.unknown("reapp", [read]))
    assert str(registry.unknown("x" * 500)) == f"There is no tool '{'x' * 80}'. Use one of the tools that are listed."


@pytest.mark.spec("R10")
def test_tools_that_need_a_root_are_visible_only_with_a_root() -> None:
    registry = Registry(has_root=False)
    write = named("file.write", "write", needs_root=True)
    registry.register([named("file.read"), named("file.list"), write])
    assert registry.names() == ("file.list", "file.read")
    for name in ("file.write", "write", "file--write"):
        assert registry.find(name) is None
    assert not registry.has("file.write") and registry.get_by_api_name("file--write") is None
    assert [spec["name"] for spec in registry.specs()] == ["file.list", "file.read"]
    with pytest.raises(DuplicateTool):
        registry.register(named("write"))
    registry.set_root(True)
    assert registry.get("write") is write
    assert registry.names() == ("file.list", "file.read", "file.write")
    registry.set_root(False)
    assert registry.names() == ("file.list", "file.read")


LOOSE = {"type": "object", "properties": {"q": {"type": "string"}}}


@pytest.mark.spec("S3")
def test_a_strict_tool_with_a_non_strict_schema_gives_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        registry.register(Tool(name="loose", strict=True, input_schema=LOOSE))
        registry.register(Tool(name="unasked", input_schema=LOOSE))
    assert len(registry.warnings) == 1
    assert "Tool 'loose' is strict" in registry.warnings[0]
    assert "additionalProperties: false" in registry.warnings[0]
    assert caplog.messages == registry.warnings
    found = registry.get("loose")
    assert found is not None and found.strict and found.input_schema is LOOSE


@pytest.mark.spec("S3")
def test_a_strict_tool_with_a_non_strict_schema_is_refused_if_configured() -> None:
    registry = Registry(strict_check="error")
    with pytest.raises(InvalidSchema, match="Tool 'loose' is strict"):
        registry.register([Tool(name="fine"), Tool(name="loose", strict=True, input_schema=LOOSE)])
    assert registry.list() == ()


@pytest.mark.spec("R2")
def test_threads_can_register_concurrently() -> None:
    registry = Registry()
    counts: list[int] = []

    def work(number: int) -> None:
        for item in range(50):
            registry.register({"name": f"t{number}.i{item}"})
            counts.append(len(registry.list()))

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(registry.list()) == 200 == registry.revision
    assert max(counts) == 200


@pytest.mark.spec("R3")
def test_registering_among_ten_thousand_tools_sorts_nothing() -> None:
    def cost(count: int) -> float:
        registry = Registry()
        registry.register([{"name": f"t.{number}"} for number in range(count)])
        registry.list()
        newcomers = iter([named(f"new.{number}") for number in range(20)])

        def come() -> None:
            newcomer = next(newcomers)
            registry.register(newcomer)
            assert registry.find(newcomer.api_name) is newcomer

        return least(come, 20)

    assert cost(10_000) < cost(100) * 20
