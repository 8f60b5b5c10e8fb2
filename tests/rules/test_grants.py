"""Grants: what "always allow" stores, and which calls it covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast.contract.enums import Effect
from holdfast.contract.errors import GrantRefused
from holdfast.contract.function_tool import tool as function_tool
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest, Confinement
from holdfast.rules.grants import NEVER_WIDENED, Width, matches, narrow_grant
from holdfast.store.ledger import Grant, Scope

from .approval_requests import (
    CALCULATOR,
    EDIT,
    FETCH,
    HOST_EFFECTS,
    READ,
    REQUEST,
    SHELL,
    UNKNOWN,
    WRITE,
    approval_request,
    reaches_host,
    tool,
)

SCOPES: tuple[Scope, ...] = ("once", "session", "project", "user")


def granted(asked: ApprovalRequest, scope: Scope = "session", width: Width = "exact", **fields: Any) -> Grant:
    spec = narrow_grant(asked, scope, "ann", width=width)
    values: dict[str, Any] = {
        "id": "g1", "tool": spec.tool, "pattern": spec.pattern, "scope": spec.scope, "by": spec.by,
        "session": spec.session, "uses": 1 if scope == "once" else None, "created": 1.0,
    }  # fmt: skip
    return Grant(**(values | fields))


@pytest.mark.spec("A12")
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("about", "args"),
    [
        (SHELL, {"command": "make test"}),
        (SHELL, {"command": "python3 -c 'print(1)'"}),
        (WRITE, {"path": "a.txt", "content": "hello"}),
        (UNKNOWN, {"deep": {"list": [1, 2.5, None, True]}}),
        (CALCULATOR, {}),
    ],
)
def test_a_grant_covers_exactly_the_same_call(scope: Scope, about: Tool, args: Args) -> None:
    asked = approval_request(about, args)
    assert matches(granted(asked, scope), approval_request(about, args, call_id="another"))


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "args",
    [
        {"command": "make test; rm -rf /"},
        {"command": "make test "},
        {"command": "make"},
        {"command": "make test", "cwd": "/"},
        {},
        {"command": ["make test"]},
        {"command": None},
    ],
)
def test_a_grant_for_a_command_covers_no_other_command(args: Args) -> None:
    grant = granted(approval_request(SHELL, {"command": "make test"}), "user")
    assert not matches(grant, approval_request(SHELL, args))


@pytest.mark.spec("A12")
def test_true_does_not_match_one_but_an_integer_matches_the_equal_float() -> None:
    grant = granted(approval_request(UNKNOWN, {"force": 1}))
    assert not matches(grant, approval_request(UNKNOWN, {"force": True}))
    assert matches(grant, approval_request(UNKNOWN, {"force": 1.0}))


@pytest.mark.spec("A12")
def test_a_grant_for_a_call_without_arguments_does_not_cover_calls_with_some() -> None:
    grant = granted(approval_request(UNKNOWN, {}), "user")
    assert matches(grant, approval_request(UNKNOWN, {}))
    assert not matches(grant, approval_request(UNKNOWN, {"command": "rm -rf /"}))


@pytest.mark.spec("A12")
def test_a_grant_of_a_command_is_bound_to_its_working_directory() -> None:
    grant = granted(approval_request(SHELL, {"command": "make"}), "user")
    assert not matches(grant, approval_request(SHELL, {"command": "make"}, cwd="/tmp/other"))


@pytest.mark.spec("A12")
def test_a_grant_with_a_relative_path_is_bound_to_the_resolved_file() -> None:
    grant = granted(approval_request(WRITE, {"path": "a.txt", "content": ""}), "user")
    elsewhere = approval_request(WRITE, {"path": "a.txt", "content": ""}, paths=(Path("/srv/other/a.txt"),))
    assert not matches(grant, elsewhere)


@pytest.mark.spec("A12")
def test_a_grant_does_not_cover_a_changed_tool() -> None:
    grant = granted(approval_request(UNKNOWN, {}), "user")
    assert not matches(grant, approval_request(UNKNOWN.with_(description="Now does something else."), {}))
    assert not matches(grant, approval_request(UNKNOWN.with_(effects=frozenset({"process"})), {}))


@pytest.mark.spec("A12")
def test_a_grant_covers_only_its_own_tool() -> None:
    grant = granted(approval_request(UNKNOWN, {}), "user")
    assert not matches(grant, approval_request(tool("acme.other"), {}))


@pytest.mark.spec("A12")
@pytest.mark.parametrize("scope", ["once", "session"])
def test_a_grant_for_a_session_ends_with_it(scope: Scope) -> None:
    asked = approval_request(UNKNOWN, {})
    grant = granted(asked, scope)
    assert grant.session == "session-1"
    assert not matches(grant, approval_request(UNKNOWN, {}, session="session-2"))
    assert not matches(granted(asked, scope, session=None), asked)


@pytest.mark.spec("A12", "N2")
def test_a_grant_for_all_projects_applies_where_the_same_patterns_hide_files() -> None:
    def asked(root: str, *patterns: str) -> ApprovalRequest:
        about = approval_request(SHELL, {"command": "make test"}, cwd=root, root=Path(root))
        given = (f"{root}: $secrets", "/home/a/notes: *.txt", *patterns)
        return structs.replace(about, confinement=lambda: Confinement(writable=(root,), patterns=given))

    grant = granted(asked("/srv/one"), "user")
    assert matches(grant, asked("/srv/one")) and matches(grant, asked("/srv/two"))
    assert matches(grant, asked("/srv/two", "/srv/two: more"))
    assert not matches(grant, asked("/srv/two", "/srv/two: !.env"))


@pytest.mark.spec("A12")
def test_a_project_grant_does_not_apply_elsewhere() -> None:
    grant = granted(approval_request(UNKNOWN, {}), "project")
    assert matches(grant, approval_request(UNKNOWN, {}, session="session-2"))
    assert not matches(grant, approval_request(UNKNOWN, {}, root=Path("/srv/other")))
    assert not matches(grant, approval_request(UNKNOWN, {}, root=None))
    with pytest.raises(GrantRefused, match="Allow it for the session instead"):
        narrow_grant(approval_request(UNKNOWN, {}, root=None), "project", "ann")


@pytest.mark.spec("A12")
def test_a_grant_ends_when_it_expires_or_is_used_up() -> None:
    asked = approval_request(UNKNOWN, {})
    grant = granted(asked, expires=100.0)
    assert matches(grant, asked, now=99.9)
    assert not matches(grant, asked, now=100.0)
    assert not matches(grant, asked)
    assert not matches(granted(asked, "once", uses=0), asked)


@pytest.mark.spec("A12")
def test_a_grant_ignores_the_label_of_built_in_tools_only() -> None:
    args: Args = {"path": "a.txt", "content": "x", "label": "first"}
    assert matches(granted(approval_request(WRITE, args)), approval_request(WRITE, {**args, "label": "second"}))
    grant = granted(approval_request(UNKNOWN, {"label": "app=web"}))
    assert not matches(grant, approval_request(UNKNOWN, {"label": "app=db"}))


@pytest.mark.spec("A12")
def test_a_grant_can_be_widened_to_a_folder() -> None:
    asked = approval_request(WRITE, {"path": "notes/a.txt", "content": "x"})
    assert not matches(granted(asked), approval_request(WRITE, {"path": "notes/b.txt", "content": "x"}))
    grant = granted(asked, width="folder")
    assert matches(grant, approval_request(WRITE, {"path": "notes/b.txt", "content": "x"}))


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ({"path": "a.txt", "content": "x"}, {}),
        ({"path": "notes/deep/a.txt", "content": "x"}, {}),
        ({"path": "notes-evil/a.txt", "content": "x"}, {}),
        ({"path": "notes/a.txt", "content": "something else"}, {}),
        ({"path": "notes/link", "content": "x"}, {"paths": (Path("/etc/passwd"),)}),
        ({"path": "notes/a.txt", "content": "x"}, {"paths": ()}),
        ({"path": None, "content": "x"}, {}),
        ({"content": "x"}, {}),
    ],
)
def test_a_folder_grant_frees_only_the_path_argument(args: Args, fields: dict[str, Any]) -> None:
    grant = granted(approval_request(WRITE, {"path": "notes/a.txt", "content": "x"}), width="folder")
    assert not matches(grant, approval_request(WRITE, args, **fields))


@pytest.mark.spec("A12")
def test_a_tool_that_only_reads_can_be_granted_with_any_arguments() -> None:
    grant = granted(approval_request(READ, {"path": "a.txt"}), width="tool")
    assert matches(grant, approval_request(READ, {"path": "b/c.txt", "limit": 3}))


@pytest.mark.spec("A12")
@pytest.mark.parametrize("width", ["folder", "tool"])
@pytest.mark.parametrize("about", [SHELL, UNKNOWN, FETCH, tool("acme.run", effects={"process", "fs.read"})])
def test_tools_that_run_send_or_have_unknown_effects_cannot_be_widened(about: Tool, width: Width) -> None:
    with pytest.raises(GrantRefused, match="Allow exactly this call"):
        narrow_grant(approval_request(about, {"path": "x"}), "session", "ann", width=width)


@pytest.mark.spec("A12")
@pytest.mark.parametrize("about", [WRITE, EDIT])
def test_a_tool_that_writes_cannot_be_granted_with_any_arguments(about: Tool) -> None:
    with pytest.raises(GrantRefused, match="Allow exactly this call, or the folder"):
        narrow_grant(approval_request(about, {"path": "x"}), "user", "ann", width="tool")


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("python3 -m http.server", "python"),
        ("/usr/bin/python3.11 x.py", "python"),
        ("bash -c ls", "bash"),
        ("env -S 'rm x'", "env"),
        ("sudo ls", "sudo"),
        ("git status", "git"),
        ("xargs rm", "xargs"),
    ],
)
def test_a_program_that_runs_its_arguments_cannot_be_granted_by_name(command: str, word: str) -> None:
    with pytest.raises(GrantRefused, match=f"'{word}' runs its arguments as commands. Allow exactly this command"):
        narrow_grant(approval_request(SHELL, {"command": command}), "user", "ann", width="tool")


@pytest.mark.spec("A12")
def test_known_abused_programs_are_in_the_never_widened_list() -> None:
    abused = "python bash sh zsh dash env sudo su doas perl ruby node eval exec xargs ssh busybox docker kubectl git"
    assert set(abused.split()) <= NEVER_WIDENED


@pytest.mark.spec("A12")
def test_a_one_time_grant_cannot_be_widened_nor_a_call_without_files_to_a_folder() -> None:
    with pytest.raises(GrantRefused, match="Choose a longer scope"):
        narrow_grant(approval_request(READ, {"path": "a"}), "once", "ann", width="tool")
    with pytest.raises(GrantRefused, match="names no file"):
        narrow_grant(approval_request(READ, {}), "session", "ann", width="folder")


@pytest.mark.spec("A12")
def test_arguments_that_are_too_long_are_not_granted() -> None:
    with pytest.raises(GrantRefused, match="Approve it each time"):
        narrow_grant(approval_request(WRITE, {"path": "a", "content": "x" * 100_000}), "user", "ann")


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"args": {}},
        {"definition": UNKNOWN.digest},
        {"definition": UNKNOWN.digest, "args": {}, "any_args": True},
        {"definition": UNKNOWN.digest, "args": None},
        {"definition": UNKNOWN.digest, "args": {}, "free": ["command"], "folders": ["/srv/project"]},
        {"definition": UNKNOWN.digest, "args": {}, "paths": [], "surprise": True},
        {"definition": "*", "args": {}, "any_args": True},
    ],
)
def test_an_empty_too_wide_or_unreadable_stored_grant_covers_nothing(pattern: Args) -> None:
    grant = Grant(id="g1", tool="acme.thing", pattern=pattern, scope="user", by="ann", created=0.0)
    assert not matches(grant, approval_request(UNKNOWN, {"command": "rm"}))
    everything = Grant(id="g2", tool="*", pattern=pattern, scope="user", by="ann", created=0.0)
    assert not matches(everything, approval_request(UNKNOWN))


@pytest.mark.spec("A12")
def test_a_widened_grant_ends_when_the_tool_does_more_than_read() -> None:
    reads = tool("acme.see", effects={"fs.read"}, touches=READ.touches)
    writes = reads.with_(effects=frozenset({"fs.write"}))
    grant = granted(approval_request(reads, {"path": "a"}), width="tool")
    forged = {**grant.pattern, "definition": writes.digest}
    asked = approval_request(writes, {"path": "a"})
    assert not matches(grant, asked)
    assert not matches(Grant(id="g", tool="acme.see", pattern=forged, scope="user", by="x", created=0.0), asked)


@pytest.mark.spec("A12")
def test_a_forged_folder_grant_does_not_cover_a_tool_that_does_more_than_use_files() -> None:
    runs = tool("acme.run", effects={"process"}, touches=READ.touches)
    asked = approval_request(runs, {"path": "notes/a.sh"})
    folder: Args = {"definition": runs.digest, "args": {}, "free": ["path"], "folders": ["/srv/project/notes"]}
    assert not matches(Grant(id="g", tool="acme.run", pattern=folder, scope="user", by="x", created=0.0), asked)


@pytest.mark.spec("A12", "B6a")
def test_a_grant_for_a_host_covers_every_request_that_only_reads_from_it() -> None:
    grant = granted(approval_request(REQUEST, {"host": "docs.example", "path": "/a"}), "project", "host")
    assert matches(grant, approval_request(REQUEST, {"host": "docs.example", "path": "/b?x=1", "headers": {"a": "b"}}))
    assert not matches(grant, approval_request(REQUEST, {"host": "other.example", "path": "/a"}))
    assert not matches(grant, approval_request(REQUEST, {"host": "docs.example:8443", "path": "/a"}))
    assert not matches(grant, approval_request(REQUEST, {"host": "docs.example", "method": "POST"}))


@pytest.mark.spec("A12", "B6a")
def test_a_host_is_granted_only_for_requests_that_read_and_tools_that_name_hosts() -> None:
    sending: Args = {"host": "docs.example", "method": "PUT"}
    reading: Args = {"path": "a"}
    for about, args in ((REQUEST, sending), (READ, reading), (FETCH, {})):
        with pytest.raises(GrantRefused):
            narrow_grant(approval_request(about, args), "project", "ann", width="host")


@pytest.mark.spec("A12", "B6a", "B9n")
@pytest.mark.parametrize(("effects", "covered"), HOST_EFFECTS)
def test_a_host_is_granted_only_to_tools_that_are_known_to_change_nothing_here(
    effects: tuple[Effect, ...] | None, covered: bool
) -> None:
    @function_tool(effects=effects)
    def look(host: str) -> str:
        return host

    asked = approval_request(look.with_(reaches=reaches_host), {"host": "docs.example"})
    if covered:
        assert matches(granted(asked, "project", "host"), asked)
        return
    with pytest.raises(GrantRefused):
        narrow_grant(asked, "project", "ann", width="host")
    pattern: Args = {"definition": asked.tool.digest, "args": {}, "hosts": ["docs.example"]}
    assert not matches(Grant(id="g", tool="look", pattern=pattern, scope="user", by="x", created=0.0), asked)
