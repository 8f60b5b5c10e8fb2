"""Wrong values for `Runtime` and its configuration are errors that name the choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Config, HoldfastError, Runtime, tool
from holdfast.config.config import SandboxConfig
from tests.runtime.support import recorder, run


@tool(effects=())
def ping() -> str:
    return "pong"


def given(value: Any) -> Any:
    """A value of any type, as an untyped program passes it."""
    return value


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Runtime(nobody=given("pendng")),
            "nobody='pendng' is not known. Did you mean 'pending'? Choose from: deny, ",
        ),
        (lambda: Runtime(nobody=given(5)), "nobody='5' is not known. Choose from: deny, pending, wait."),
        (lambda: Runtime().tool_list(given("opnai")), "the format 'opnai'. Did you mean 'openai'? Choose from: "),
        (lambda: Runtime(config=given({})), "a Config, not dict. For a dict use Config.from_dict(...)."),
        (lambda: Runtime(tools=given(ping)), "a list: Runtime(tools=[...])"),
        (
            lambda: Config(approval=given({"auto_approve": ["note"]})),
            "takes ApprovalConfig(...), not dict. For plain tables write Config.from_dict({'approval': {...}}).",
        ),
        (lambda: Config.from_dict(given([])), "Config.from_dict takes a dict of tables, not list."),
        (
            lambda: Config.from_dict({"aproval": {}}),
            "Config.from_dict: aproval is not an option. Did you mean 'approval'?",
        ),
        (
            lambda: Config.from_dict({"tools": {"profile": "codng"}}),
            "expected one of minimal, messaging, coding, full, got 'codng'. Did you mean 'coding'?",
        ),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_choices(make: Callable[[], object], words: str) -> None:
    with pytest.raises(HoldfastError) as refused:
        make()
    assert words in str(refused.value)


@pytest.mark.spec("T12")
def test_config_from_dict_means_the_same_as_a_file() -> None:
    note, seen = recorder()
    config = Config.from_dict(
        {"approval": {"auto_approve": ["note"]}, "sandbox": {"read_deny": {"append": ["~/private"]}}, "tools": {}}
    )
    assert "~/private" in config.sandbox.read_deny and config.sandbox.read_deny[0] == SandboxConfig().read_deny[0]
    assert run(Runtime(tools=[note], config=config).call("note", {"text": "x"})).success
    assert seen == [{"text": "x"}]
