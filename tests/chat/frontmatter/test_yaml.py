"""YAML frontmatter is detected, and its TOML equivalent suggested."""

from __future__ import annotations

import tomllib

import pytest

from holdfast.chat.document import Document
from holdfast.chat.frontmatter.yaml import yaml_problem


def toml_in(message: str | None) -> object:
    assert message is not None and "YAML frontmatter" in message
    return tomllib.loads(message.partition("```toml\n")[2].rpartition("```")[0])


@pytest.mark.spec("D6")
def test_yaml_frontmatter_is_shown_as_toml() -> None:
    text = """---
# a comment
model:
  name: operator
  temperature: 0.5
tools:
  deny:
    - shell.exec
    - 'git.log'
  allow: [file.read, "x"]
chat:
  autopilot: {}
---
@You:
Hi.
"""
    plain = text.replace("chat:\n  autopilot: {}\n", "")
    assert toml_in(yaml_problem(plain)) == {
        "model": {"name": "operator", "temperature": 0.5},
        "tools": {"deny": ["shell.exec", "git.log"], "allow": ["file.read", "x"]},
    }
    assert toml_in(yaml_problem(text)) == {"tools": {"profile": "minimal"}}
    (found,) = [one for one in Document.parse(text).diagnostics if one.severity == "error"]
    assert (found.line, found.message) == (1, yaml_problem(text))


@pytest.mark.spec("D6")
def test_the_suggested_toml_is_valid_frontmatter() -> None:
    told = yaml_problem("---\nmodel: operator\ntools:\n  - bash\n---\n@You:\nHi.\n")
    assert toml_in(told) == {"model": {"name": "operator"}, "tools": {"allow": ["bash"]}}


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    "text", ["---\n@You:\nHi.\n", "---\nwords\n---\n@You:\n", "- a: b\n@You:\n", "@You:\n---\na: b\n---\n"]
)
def test_a_line_of_dashes_alone_is_not_frontmatter(text: str) -> None:
    assert yaml_problem(text) is None
    assert all("YAML" not in one.message for one in Document.parse(text).diagnostics)
