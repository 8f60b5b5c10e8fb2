from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.merge import NameList, edit_list
from holdfast.contract.errors import ConfigError

names = st.lists(st.sampled_from(["$default", "file.read", "file.write", "shell.exec"]), max_size=4)


@pytest.mark.spec("A7")
def test_append_adds_at_the_end_and_prepend_at_the_start() -> None:
    current = NameList(("$default",))
    assert current.append("shell.exec").items == ("$default", "shell.exec")
    assert current.prepend(["a", "b"]).items == ("a", "b", "$default")


@pytest.mark.spec("A7")
def test_adding_an_existing_item_moves_it() -> None:
    current = NameList(("a", "b", "c"))
    assert current.append("a").items == ("b", "c", "a")
    assert current.prepend("c").items == ("c", "a", "b")


@pytest.mark.spec("A7")
def test_removing_an_item_also_excludes_it_from_presets() -> None:
    assert NameList(("$default", "file.write")).remove("file.write") == NameList(("$default",), ("file.write",))
    assert NameList(("$default", "a")).remove("$default") == NameList(("a",))


@pytest.mark.spec("A7")
def test_removing_a_name_that_only_a_preset_contains_excludes_it() -> None:
    assert NameList(("$default",)).remove("file.write") == NameList(("$default",), ("file.write",))


@pytest.mark.spec("A7")
def test_adding_an_excluded_name_ends_its_exclusion() -> None:
    removed = NameList(("$default",)).remove("file.write")
    assert removed.append("file.write") == NameList(("$default", "file.write"))
    assert removed.set(["$default"]) == NameList(("$default",))


@pytest.mark.spec("A7")
@pytest.mark.parametrize("sign", ["", "$"])
def test_a_table_contains_operations_with_or_without_a_dollar(sign: str) -> None:
    table = {f"{sign}append": "c", f"{sign}prepend": ["z"], f"{sign}remove": ["a", "x"]}
    assert edit_list(NameList(("a", "b")), table, "here") == NameList(("z", "b", "c"), ("a", "x"))


@pytest.mark.spec("A7")
def test_remove_wins_in_a_table_of_operations_in_any_order() -> None:
    table = {"remove": ["b"], "append": ["b"], "set": ["a"]}
    assert edit_list(NameList(("x",)), table, "here") == NameList(("a",), ("b",))


@pytest.mark.spec("A7")
def test_a_plain_list_replaces_the_list_without_duplicates() -> None:
    assert edit_list(NameList(("x",), ("y",)), ["a", "b", "a"], "here") == NameList(("a", "b"))


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("a", "here: expected a list of strings, got a string."),
        (["a", 3], "here[1]: expected a string, got an integer."),
        ({"add": ["a"]}, "'add' is not a list operation"),
        ({}, "has no list operation"),
        ({"append": ["a"], "$append": ["b"]}, "'append' is given twice"),
        ({"append": 3}, "here.append: expected a list of strings, got an integer."),
    ],
)
def test_a_value_that_is_neither_a_list_nor_operations_is_refused(given: object, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        edit_list(NameList(), given, "here")
    assert says in str(raised.value)


@pytest.mark.spec("A7")
@given(start=names, first=names, second=names)
def test_a_name_is_never_twice_in_a_list_nor_both_listed_and_excluded(
    start: list[str], first: list[str], second: list[str]
) -> None:
    for change in ("append", "prepend", "remove"):
        result = getattr(NameList().set(start).remove(first), change)(second)
        assert len(set(result.items)) == len(result.items)
        assert not set(result.items) & set(result.excluded)
