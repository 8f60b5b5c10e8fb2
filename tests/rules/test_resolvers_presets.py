"""Lists of names, presets and exclusions."""

from __future__ import annotations

import pytest

from holdfast.config.config import Preset
from holdfast.config.merge import NameList
from holdfast.contract.enums import Verdict
from holdfast.contract.tool import Tool
from holdfast.rules.resolvers import ListPolicy, Restrictions
from holdfast.tools import builtin_tools

from .approval_requests import EDIT, FETCH, READ, SHELL, UNKNOWN, WRITE


def verdict(policy: ListPolicy, about: Tool) -> Verdict | None:
    answer = policy.decide(about)
    return None if answer is None else answer.verdict


@pytest.mark.spec("A6")
def test_the_readonly_preset_approves_local_tools_that_only_read() -> None:
    policy = ListPolicy(["$readonly"])
    assert {about.name for about in builtin_tools() if verdict(policy, about) is Verdict.APPROVE} == {
        "file.read", "file.list", "file.find", "code.search", "git.status", "git.diff", "git.log", "system.info",
        "output.read", "process.status", "process.output", "process.list", "skill.load", "sessions.list", "cron.list",
        "memory.read",
        "memory.list", "memory.search", "browser.find", "browser.screenshot", "browser.text", "browser.wait",
        "media.send", "image.analyze", "audio.transcribe",
    }  # fmt: skip
    for about in (WRITE, EDIT, SHELL, UNKNOWN, FETCH):
        assert verdict(policy, about) is None


@pytest.mark.spec("A6")
def test_the_default_preset_adds_write_and_edit_but_not_the_shell() -> None:
    policy = ListPolicy(["$default"])
    assert [verdict(policy, about) for about in (READ, WRITE, EDIT)] == [Verdict.APPROVE] * 3
    assert verdict(policy, SHELL) is None


@pytest.mark.spec("A6")
@pytest.mark.parametrize("source", ["program", "package:acme", "mcp:server"])
def test_third_party_tools_cannot_enter_a_built_in_preset_by_name_or_declaration(source: str) -> None:
    stranger = READ.with_(source=source, presets=("$readonly", "$default"))
    assert [verdict(ListPolicy([preset]), stranger) for preset in ("$readonly", "$default")] == [None, None]
    assert verdict(ListPolicy(["file.read"]), stranger) is Verdict.APPROVE


@pytest.mark.spec("A5a")
@pytest.mark.parametrize("entry", ["shell.exec", "bash", "shell.*", "group:runtime", "sh?ll.exec"])
def test_a_list_matches_names_aliases_patterns_and_groups(entry: str) -> None:
    policy = ListPolicy([entry])
    assert verdict(policy, SHELL) is Verdict.APPROVE
    assert verdict(policy, READ) is None


@pytest.mark.spec("A6")
def test_a_user_preset_replaces_the_built_in_one_of_the_same_name() -> None:
    policy = ListPolicy(["$default"], presets={"$default": Preset(approve=("bash",))})
    assert verdict(policy, SHELL) is Verdict.APPROVE
    assert verdict(policy, READ) is None


@pytest.mark.spec("A6")
def test_presets_form_a_union_and_deny_wins() -> None:
    presets = {
        "$yolo": Preset(approve=("bash", "read", "write", "edit")),
        "$no-bash": Preset(deny=("bash",)),
    }
    for entries in (["$yolo", "$no-bash"], ["$no-bash", "$yolo"], ["$no-bash", "$yolo", "shell.exec"]):
        policy = ListPolicy(entries, presets=presets)
        assert verdict(policy, SHELL) is Verdict.DENY
        assert verdict(policy, WRITE) is Verdict.APPROVE


@pytest.mark.spec("A6", "A10")
def test_the_reason_names_the_entry_and_the_preset() -> None:
    answer = ListPolicy(["$default"]).decide(READ)
    assert answer is not None
    assert answer.reason == "'file.read' is approved by the preset '$default'."


@pytest.mark.spec("A6")
def test_an_unknown_preset_is_ignored() -> None:
    policy = ListPolicy(["$defualt", "read"])
    assert verdict(policy, READ) is Verdict.APPROVE
    assert verdict(policy, WRITE) is None


@pytest.mark.spec("A7")
@pytest.mark.parametrize("name", ["write", "file.write", "file.w*"])
def test_removing_a_tool_of_a_preset_excludes_it(name: str) -> None:
    names = NameList().set(["$default"]).remove(name)
    policy = ListPolicy(names.items, excluded=names.excluded)
    assert verdict(policy, WRITE) is None
    assert verdict(policy, READ) is Verdict.APPROVE


@pytest.mark.spec("A7")
def test_an_edited_list_approves_the_remaining_tools() -> None:
    names = NameList(("$default",)).append("bash").remove("write")
    policy = ListPolicy(names.items, excluded=names.excluded)
    assert verdict(policy, SHELL) is Verdict.APPROVE
    assert verdict(policy, WRITE) is None


@pytest.mark.spec("A7")
def test_an_exclusion_removes_approvals_but_not_denials() -> None:
    presets = {"$no-bash": Preset(deny=("bash",))}
    policy = ListPolicy(["$no-bash", "bash"], presets=presets, excluded=["bash"])
    assert verdict(policy, SHELL) is Verdict.DENY


@pytest.mark.spec("A2")
def test_an_untrusted_list_removes_approvals_and_adds_none() -> None:
    policy = ListPolicy(["$default"])
    narrow = Restrictions([["$readonly", "bash"]])
    left = {about.name: narrow.apply(policy.decide(about), about) for about in (READ, WRITE, SHELL)}
    assert [None if answer is None else answer.verdict for answer in left.values()] == [
        Verdict.APPROVE,
        Verdict.ASK,
        None,
    ]


@pytest.mark.spec("A2")
def test_a_denial_in_an_untrusted_list_denies() -> None:
    narrow = Restrictions([["$none"]], presets={"$none": Preset(deny=("read",))})
    for answer in (None, ListPolicy(["read"]).decide(READ)):
        left = narrow.apply(answer, READ)
        assert left is not None
        assert left.verdict is Verdict.DENY


@pytest.mark.spec("A2")
def test_every_untrusted_list_must_agree() -> None:
    policy = ListPolicy(["$default"])
    narrow = Restrictions([["$default"], ["file.read"]])
    kept = narrow.apply(policy.decide(READ), READ)
    lost = narrow.apply(policy.decide(WRITE), WRITE)
    assert kept is not None
    assert lost is not None
    assert (kept.verdict, lost.verdict) == (Verdict.APPROVE, Verdict.ASK)
