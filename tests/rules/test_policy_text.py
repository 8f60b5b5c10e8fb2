"""The rules in words and as TOML say what the configuration does."""

from __future__ import annotations

from holdfast.config.config import ApprovalConfig, Config
from holdfast.config.layers import LayerReport
from holdfast.rules.policy_text import SECTIONS, policy_toml, policy_words, trust_note


def test_a_configuration_that_approves_nothing_has_no_words() -> None:
    assert policy_words(Config(approval=ApprovalConfig(auto_approve=()))) == []


def test_what_is_approved_without_asking_is_said() -> None:
    words = policy_words(Config(approval=ApprovalConfig(auto_approve=("file.write",))))
    assert any("file.write" in word for word in words)


def test_limits_of_other_files_are_said() -> None:
    config = Config(approval=ApprovalConfig(auto_approve=("file.write",), narrow=(("file.read",),)))
    assert policy_words(config)[-1].startswith('but only if auto_approve = ["file.read"]')


def test_every_section_that_decides_is_written_with_marks_on_defaults() -> None:
    lines = list(policy_toml(Config()))
    assert [line for line in lines if line.startswith("[")][: len(SECTIONS)] == [f"[{name}]" for name in SECTIONS]
    assert any(line.endswith("# default") for line in lines)


def test_an_untrusted_layer_says_what_it_can_do() -> None:
    layer = LayerReport(
        name="project", path="/p/holdfast.toml", digest="", trusted=False, applied=False, ignored=("tools.allow",)
    )
    assert trust_note(layer) == "untrusted: it can only tighten; as limits only: tools.allow"
