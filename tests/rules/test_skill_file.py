"""`SKILL.md`: what it says, which of our tools it names, and what makes it invalid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.skill_file import (
    MAX_SKILL_BYTES,
    InvalidSkill,
    our_names,
    parse_skill_file,
    permissions_of,
)

pytestmark = pytest.mark.spec("B13c")


def skill(*more: str, name: str = "pdf", body: str = "# Steps\n") -> bytes:
    lines = ("---", f"name: {name}", "description: Reads PDF files.", *more, "---", "", body)
    return "\n".join(lines).encode()


def test_everything_in_the_format_is_read() -> None:
    found = parse_skill_file(
        skill("license: MIT", "compatibility: Needs git.", "metadata:", "  author: me", "allowed-tools: Read file.list")
    )
    assert (found.name, found.description, found.instructions) == ("pdf", "Reads PDF files.", "# Steps")
    assert (found.license, found.compatibility, found.metadata) == ("MIT", "Needs git.", {"author": "me"})
    assert found.allowed == ("file.read", "file.list")
    assert parse_skill_file(skill()).allowed is None
    assert parse_skill_file(skill("allowed-tools:")).allowed == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin with front matter"),
        (b"# Title\n", "does not begin with front matter"),
        (b"---\nname: x\n", "no closing"),
        (b"---\ndescription: x\n---\n", "`name`"),
        (b"---\nname: x\n---\n", "no `description`"),
        (b"---\nname: x\ndescription: '  '\n---\n", "no `description`"),
        (skill(name="PDF"), "lower-case"),
        (skill(name="../pdf"), "lower-case"),
        (skill(name="a--b"), "lower-case"),
        (skill(name="a" * 65), "lower-case"),
        (skill("allowed-tools: {a: b}"), "'allowed-tools'"),
        (skill("name: again"), "'name' twice"),
        (skill() + b"\xff", "not UTF-8"),
        (b"---\n" + b"x" * MAX_SKILL_BYTES, "larger than 256 KB"),
    ],
)
def test_an_invalid_file_says_why(content: bytes, words: str) -> None:
    with pytest.raises(InvalidSkill, match=words):
        parse_skill_file(content)


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    ("written", "kept", "dropped"),
    [
        ("Read Grep Glob", ("file.read", "code.search", "file.find"), ()),
        ("Read, Write,Edit", ("file.read", "file.write", "file.edit"), ()),
        ("Bash", ("bash",), ()),
        ("Bash(*)", ("bash",), ()),
        ("Bash(git:*)", ("git.status", "git.diff", "git.log"), ()),
        ("Bash(git log:*) Bash(git status)", ("git.log", "git.status"), ()),
        ("Bash(git push:*) Bash(rm:*) Read", ("file.read",), ("Bash(git push:*)", "Bash(rm:*)")),
        ("Read(src/**) WebFetch(domain:example.org)", (), ("Read(src/**)", "WebFetch(domain:example.org)")),
        ("Task TodoWrite", (), ("Task", "TodoWrite")),
        ("file.* group:git mcp__hub__issue bash", ("file.*", "group:git", "mcp__hub__issue", "bash"), ()),
        ("file.read(a)", (), ("file.read(a)",)),
        ("Bash(a) b) Read", (), ("Bash(a) b) Read",)),
    ],
)
def test_names_of_other_agents_become_ours_only_if_ours_are_as_narrow(
    written: str, kept: tuple[str, ...], dropped: tuple[str, ...]
) -> None:
    assert our_names([written]) == (kept, dropped)


@given(st.text(st.sampled_from("Bash(git:*) ,Read\n)("), max_size=60))
def test_an_entry_with_an_argument_never_gives_the_whole_tool(text: str) -> None:
    kept, _ = our_names([text])
    if "bash" in kept:
        words = text.replace("(*)", " ").replace("()", " ").replace(",", " ").split()
        assert "Bash" in words or "bash" in words


@pytest.mark.spec("P4")
def test_a_skill_with_both_lists_has_what_both_name() -> None:
    text, manifest = parse_skill_file(skill("allowed-tools: Read Write")), b'{"permissions": {"tools": ["file.*"]}}'
    both = permissions_of(text, manifest)
    assert (both.allow, both.within) == (("file.*",), ("file.read", "file.write"))
    assert both.named == ("file.read", "file.write")
    grouped = permissions_of(text, b'{"permissions": {"tool_groups": ["fs"]}}')
    assert grouped.named == ("file.read", "file.write")
    assert permissions_of(text, None).allow == ("file.read", "file.write")
    assert permissions_of(parse_skill_file(skill()), manifest).within is None
    without = permissions_of(parse_skill_file(skill()), None)
    assert without.allow == () and "no `allowed-tools`" in without.reason
    assert permissions_of(text, b"broken").allow == ()
