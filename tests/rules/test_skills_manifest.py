"""Skill manifests: anything invalid gives no tools."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.rules.skill_file import MAX_SKILL_BYTES, SkillPermissions, parse_manifest
from holdfast.rules.skills import digest_of, read_skill


def permissions(**fields: Any) -> SkillPermissions:
    return parse_manifest(json.dumps({"name": "x", "permissions": fields}))


@pytest.mark.spec("P4")
def test_a_skill_without_a_manifest_has_no_tools(tmp_path: Path) -> None:
    assert read_skill(tmp_path) == read_skill(tmp_path / "nowhere")
    assert read_skill(tmp_path).allow == ()
    assert read_skill(tmp_path).reason == "it has no manifest.json"


@pytest.mark.spec("P4")
def test_a_manifest_in_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"permissions": {"tools": ["file.read", "browser.*"]}}')
    assert read_skill(tmp_path).allow == ("file.read", "browser.*")


@pytest.mark.spec("P4")
def test_a_manifest_counts_only_with_the_trusted_content(tmp_path: Path) -> None:
    path = tmp_path / "skill" / "manifest.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"tools": ["file.read"]}}')
    trusted = {(path, digest_of(path.read_bytes()))}

    def allowed(folder: Path) -> tuple[str, ...]:
        return read_skill(folder, lambda file, digest: (file, digest) in trusted).allow

    (tmp_path / "link").symlink_to("skill")
    assert allowed(path.parent) == allowed(tmp_path / "link") == ("file.read",)
    path.write_text('{"permissions": {"tools": ["file.read", "*"]}}')
    assert allowed(path.parent) == ()
    assert f"holdfast trust {path}" in read_skill(path.parent, lambda _path, _digest: False).reason
    path.write_text('{"permissions": {"tools": ["file.read"]}}')
    assert allowed(path.parent) == ("file.read",)


@pytest.mark.spec("P4")
def test_explicit_tools_override_groups_even_if_empty() -> None:
    assert permissions(tools=["file.read"], tool_groups=["runtime"]).allow == ("file.read",)
    assert permissions(tools=[], tool_groups=["runtime"]).allow == ()


@pytest.mark.spec("P4", "P2")
def test_groups_can_be_written_with_or_without_prefix() -> None:
    assert permissions(tool_groups=["fs", "group:web"]).allow == ("group:fs", "group:web")


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "has no `permissions`"),
        ('{"permissions": null}', "has no `permissions`"),
        ('{"permissions": ["file.read"]}', "has no `permissions`"),
        ('{"permissions": {}}', "neither `tools` nor `tool_groups`"),
        ('["file.read"]', "has no `permissions`"),
        ("", "malformed"),
        ("{", "malformed"),
        ('{"permissions": {"tools": ["a"]}, "permissions": {"tools": ["*"]}}', "malformed"),
        ('{"permissions": {"tools": "*"}}', "not a list of names"),
        ('{"permissions": {"tools": ["file.read", 7]}}', "not a list of names"),
        ('{"permissions": {"tools": null, "tool_groups": ["fs"]}}', "`permissions.tools`"),
        ('{"permissions": {"tools": [""]}}', "not a list of names"),
        ('{"permissions": {"tool_groups": {"fs": true}}}', "`permissions.tool_groups`"),
        ("[" * 100_000, "malformed"),
        ("\ufeff{}", "malformed"),
        (" " * (MAX_SKILL_BYTES + 1), "malformed"),
    ],
)
def test_a_malformed_manifest_gives_no_tools_and_says_why(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    found = read_skill(tmp_path)
    assert found.allow == ()
    assert words in found.reason


@pytest.mark.spec("P4")
def test_a_manifest_that_is_not_a_file_gives_no_tools_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "folder" / "manifest.json").mkdir(parents=True)
    assert read_skill(tmp_path / "folder").allow == ()
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "manifest.json")
    assert read_skill(tmp_path / "pipe").allow == ()
    assert read_skill(Path("a\0b")).allow == ()


@pytest.mark.spec("P4")
def test_bytes_that_are_not_utf8_give_no_tools(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"permissions": {"tools": ["\xff"]}}')
    assert read_skill(tmp_path).allow == ()
