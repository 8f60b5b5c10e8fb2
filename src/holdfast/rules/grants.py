"""Grants ("always allow"): makes the narrowest rule that covers a call, refuses rules that are too wide, and matches
stored grants against calls.

A grant covers one tool with one definition and one set of arguments, under the same or a stricter sandbox and network;
for a command it also covers the content of the project files that the command names. On request it can be widened: to
the files of one folder; for requests that only read, to one host; for tools that only read, to all arguments; for shell
commands, to one program that only reads or checks project files, or to one family of scripts. A user-level grant
applies in every project: paths inside the project are stored relative to `{project}`.
"""

from __future__ import annotations

import re
from time import time
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec
from msgspec import Struct

from holdfast.contract.call import NamedFile
from holdfast.contract.enums import ACTS_ON_STATE, READING_EFFECTS
from holdfast.contract.errors import GrantRefused
from holdfast.contract.json import Args, canonical_json
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest, Confinement
from holdfast.rules.shell.context import is_shell_tool
from holdfast.rules.shell.parts import word_set

if TYPE_CHECKING:
    from holdfast.store.ledger import Grant, Grants, Scope

Width = Literal["exact", "folder", "host", "tool", "command"]
WIDTHS: Final[tuple[Width, ...]] = ("host", "exact", "folder", "tool", "command")
"""The order in which grants are offered: for one host, then narrowest first."""

MAX_PATTERN_BYTES: Final = 64 * 1024
FILE_EFFECTS: Final = frozenset({"fs.read", "fs.write"})
UNBOUND_ARGS: Final = frozenset({"label", "timeout"})
"""Arguments of built-in tools that a grant ignores, because they do not change what the call does."""
PROJECT: Final = "{project}"
"""Placeholder for the project root. It cannot be mistaken for a real path, which starts with `/`."""
NEVER_WIDENED: Final = word_set("""
    ash bash csh dash fish ksh powershell pwsh sh zsh awk deno lua node osascript perl php python ruby sed tclsh doas
    su sudo chroot nsenter unshare command env eval exec nice nohup setsid source stdbuf time timeout xargs busybox
    docker find git kubectl make npm npx pip podman ssh tar uv uvx less man screen tmux vi vim watch
""")
"""Programs that run their arguments: a grant for the first word would allow everything."""
_SESSION_SCOPES: Final = ("once", "session")
_VERSION: Final = re.compile(r"[\d.]+$")


class GrantPattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which calls of a tool a grant covers."""

    definition: str
    """Digest of the tool's definition, so that a changed tool needs approval again."""
    args: Args
    """All arguments except those in `free`, with their exact values."""
    any_args: bool = False
    """Whether any arguments match; only for tools that only read."""
    paths: tuple[str, ...] | None = None
    """The resolved paths the call must touch, in order."""
    free: tuple[str, ...] = ()
    """Path arguments that may name any file directly inside one of `folders`."""
    folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The hosts that a call may contact, with any arguments that only read there."""
    command: tuple[str, ...] = ()
    """The first words of a shell command. The rest must be known to only read, unless `rest` allows more."""
    rest: Literal["reads", "files", "script"] = "reads"
    """What may follow `command`: `files` allows any project file and exactly `options`, for programs that check or
    format
    files; with `script` the last word of `command` is a prefix of the script name."""
    options: tuple[str, ...] = ()
    cwd: str | None = None
    root: str | None = None
    given_under: Confinement | None = None
    """The confinement of the call the grant was made for. Under a weaker one, or without one, the grant covers
    nothing."""
    files: tuple[NamedFile, ...] = ()
    """The project files the command names, with digests of their content."""


class GrantSpec(Struct, frozen=True, kw_only=True):
    """A grant that is not stored yet."""

    tool: str
    pattern: Args
    """A `GrantPattern` as JSON."""
    scope: Scope
    by: str
    session: str | None = None


class GrantMatcher:
    """Finds, consumes and adds stored grants for a runtime."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    def find(self, request: ApprovalRequest) -> Grant | None:
        """A grant that covers the call; an unlimited one is preferred over a one-time one."""
        found = self._grants.list(tool=request.tool.name, session=request.session)
        covering = (grant for grant in found if matches(grant, request))
        return min(covering, key=lambda grant: grant.uses is not None, default=None)

    def consume(self, request: ApprovalRequest) -> bool:
        """Whether a grant covers the call now; a one-time grant is used up. Call this right before the call runs, so
        that two
        calls cannot share one grant."""
        grant = self.find(request)
        return grant is not None and self._grants.consume(grant.id, request.call_id)

    def get(self, grant_id: str) -> Grant | None:
        """The stored grant with this id."""
        return next((grant for grant in self._grants.list(every=True) if grant.id == grant_id), None)

    def supports(self, scope: Scope) -> bool:
        """Whether grants of this scope can be stored."""
        return scope != "user" or self._grants.has_user

    def add(self, spec: GrantSpec, *, expires: float | None = None) -> Grant:
        """Store a grant that `narrow_grant` made."""
        return self._grants.add(
            tool=spec.tool, pattern=spec.pattern, scope=spec.scope, by=spec.by, session=spec.session, expires=expires
        )


def narrow_grant(request: ApprovalRequest, scope: Scope, by: str, *, width: Width = "exact") -> GrantSpec:
    """The grant for "always allow" of this call. Raises `GrantRefused` if it would be too wide."""
    tool = request.tool
    if ACTS_ON_STATE in tool.capabilities:
        raise GrantRefused(f"What '{tool.name}' does depends on more than its arguments. Approve it each time.")
    if scope == "project" and request.root is None:
        raise GrantRefused(f"There is no project here to allow '{tool.name}' in. Allow it for the session instead.")
    if width != "exact":
        _check_width(request, scope, width)
    pattern = GrantPattern(
        definition=tool.digest,
        args={} if width in ("host", "tool") else _bound_args(tool, request.args),
        any_args=width == "tool",
        paths=tuple(map(str, request.paths)) if width == "exact" else None,
        cwd=request.cwd if _depends_on_cwd(request) else None,
        root=str(request.root) if scope == "project" else None,
        given_under=request.confinement(),
        files=request.files() if width == "exact" else (),
    )
    if width == "folder":
        pattern = _widen_to_folder(request, pattern)
    elif width == "host":
        pattern = msgspec.structs.replace(pattern, hosts=_granted_hosts(request))
    elif width == "command":
        pattern = _widen_to_command(request, pattern)
    if scope == "user":
        pattern = _rebase_paths(pattern, str(request.root), PROJECT) if request.root is not None else pattern
    if len(msgspec.json.encode(pattern)) > MAX_PATTERN_BYTES:
        raise GrantRefused(
            f"The arguments of this call of '{tool.name}' are too long for a grant. Approve it each time instead."
        )
    session = request.session if scope in _SESSION_SCOPES else None
    made = cast(Args, msgspec.to_builtins(pattern))
    return GrantSpec(tool=tool.name, pattern=made, scope=scope, by=by, session=session)


def matches(grant: Grant, request: ApprovalRequest, *, now: float | None = None) -> bool:
    """Whether a stored grant covers this call. Invalid and expired grants cover nothing."""
    if grant.tool != request.tool.name or (grant.session is not None and grant.session != request.session):
        return False
    if grant.expires is not None and grant.expires <= (time() if now is None else now):
        return False
    if grant.uses == 0 or (grant.scope in _SESSION_SCOPES and not grant.session):
        return False
    try:
        pattern = msgspec.convert(grant.pattern, GrantPattern)
    except msgspec.ValidationError:
        return False
    return covers(pattern, request)


def spec_covers(spec: GrantSpec, request: ApprovalRequest) -> bool:
    """Whether a grant that is not stored yet covers this call."""
    if spec.tool != request.tool.name or spec.session not in (None, request.session):
        return False
    return covers(msgspec.convert(spec.pattern, GrantPattern), request)


def covers(pattern: GrantPattern, request: ApprovalRequest) -> bool:
    """Whether the pattern matches the call, and the call is confined at least as strictly as when the grant was
    made."""
    if pattern.root is None and request.root is not None:
        pattern = _rebase_paths(pattern, PROJECT, str(request.root))
    if pattern.given_under is None or not _matches_call(pattern, request):
        return False
    return request.confinement().is_within(pattern.given_under)


def _rebase_paths(pattern: GrantPattern, before: str, after: str) -> GrantPattern:
    """The pattern with all paths below `before` moved below `after`."""

    def rebase(path: str) -> str:
        return after + path[len(before) :] if path == before or path.startswith(f"{before}/") else path

    def rebased(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(rebase, paths))

    confinement = pattern.given_under
    if confinement is not None:
        confinement = msgspec.structs.replace(
            confinement,
            writable=rebased(confinement.writable),
            hidden=rebased(confinement.hidden),
            protected=rebased(confinement.protected),
            patterns=tuple(
                ": ".join((rebase(folder), text)) for folder, text in map(_split_hidden_pattern, confinement.patterns)
            ),
        )
    return msgspec.structs.replace(
        pattern,
        paths=None if pattern.paths is None else rebased(pattern.paths),
        folders=rebased(pattern.folders),
        cwd=None if pattern.cwd is None else rebase(pattern.cwd),
        given_under=confinement,
    )


def _split_hidden_pattern(pattern: str) -> tuple[str, str]:
    folder, _, text = pattern.partition(": ")
    return folder, text


def _matches_call(pattern: GrantPattern, request: ApprovalRequest) -> bool:
    tool = request.tool
    if pattern.definition != tool.digest:
        return False
    if pattern.cwd is not None and pattern.cwd != request.cwd:
        return False
    if pattern.root is not None and (request.root is None or pattern.root != str(request.root)):
        return False
    if pattern.any_args:
        return _only_reads(tool)
    if pattern.hosts:
        reach = request.reach if tool.only_reads_here else None
        return reach is not None and not reach.sends and bool(reach.hosts) and set(reach.hosts) <= set(pattern.hosts)
    given = _bound_args(tool, request.args)
    if pattern.command:
        return _matches_command(pattern, request, given)
    if pattern.free and not _in_folders(pattern, request):
        return False
    if not pattern.free and pattern.paths != tuple(map(str, request.paths)):
        return False
    fixed = {name: value for name, value in given.items() if name not in pattern.free}
    if canonical_json(fixed) != canonical_json(pattern.args):
        return False
    return bool(pattern.free) or pattern.files == request.files()


def _check_width(request: ApprovalRequest, scope: Scope, width: Width) -> None:
    tool = request.tool
    if scope == "once":
        raise GrantRefused(f"A one-time approval covers exactly this call of '{tool.name}'. Choose a longer scope.")
    if width in ("host", "command"):
        return
    if tool.effects is None or "process" in tool.effects:
        raise GrantRefused(_too_wide_reason(request))
    if width == "folder" and not tool.effects <= FILE_EFFECTS:
        raise GrantRefused(f"'{tool.name}' does more than use files, so a folder is too wide. Allow exactly this call.")
    if width == "tool" and not _only_reads(tool):
        raise GrantRefused(
            f"'{tool.name}' does more than read, so it cannot be allowed with any arguments. "
            "Allow exactly this call, or the folder."
        )


def _too_wide_reason(request: ApprovalRequest) -> str:
    word = _first_word(request.args.get("command"))
    if word in NEVER_WIDENED:
        return f"'{word}' runs its arguments as commands. Allow exactly this command instead."
    return f"'{request.tool.name}' can do anything, depending on its arguments. Allow exactly this call instead."


def _first_word(command: object) -> str:
    words = command.split() if isinstance(command, str) else []
    return _VERSION.sub("", words[0].rpartition("/")[2]).lower() if words else ""


def _widen_to_command(request: ApprovalRequest, pattern: GrantPattern) -> GrantPattern:
    from holdfast.rules.shell.judgement import checking_prefix, reading_prefix, script_prefix  # only for commands

    if not is_shell_tool(request.tool):
        raise GrantRefused(_too_wide_reason(request))
    fixed = {name: value for name, value in pattern.args.items() if name != "command"}
    if (prefix := reading_prefix(request)) is not None:
        return msgspec.structs.replace(pattern, args=fixed, command=prefix)
    if (checking := checking_prefix(request)) is not None:
        prefix, options = checking
        return msgspec.structs.replace(pattern, args=fixed, command=prefix, rest="files", options=options)
    if (prefix := script_prefix(request)) is not None:
        return msgspec.structs.replace(pattern, args=fixed, command=prefix, rest="script")
    raise GrantRefused(_too_wide_reason(request))


def _matches_command(pattern: GrantPattern, request: ApprovalRequest, given: Args) -> bool:
    from holdfast.rules.shell.judgement import checking_prefix, has_prefix, script_prefix  # only for commands

    fixed = {name: value for name, value in given.items() if name != "command"}
    if canonical_json(fixed) != canonical_json(pattern.args) or not is_shell_tool(request.tool):
        return False
    if pattern.rest == "files":
        return checking_prefix(request) == (pattern.command, pattern.options)
    if pattern.rest == "script":
        return script_prefix(request) == pattern.command
    return has_prefix(pattern.command, request)


def _widen_to_folder(request: ApprovalRequest, pattern: GrantPattern) -> GrantPattern:
    named = _named_paths(request)
    free = tuple(sorted(name for name, value in request.args.items() if isinstance(value, str) and value in named))
    if not free:
        raise GrantRefused(f"This call of '{request.tool.name}' names no file. Allow exactly this call instead.")
    fixed = {name: value for name, value in pattern.args.items() if name not in free}
    folders = tuple(sorted({str(path.parent) for path in request.paths}))
    return msgspec.structs.replace(pattern, args=fixed, free=free, folders=folders)


def _granted_hosts(request: ApprovalRequest) -> tuple[str, ...]:
    reach = request.reach if request.tool.only_reads_here else None
    if reach is None or reach.sends or not reach.hosts:
        raise GrantRefused(f"This call of '{request.tool.name}' does not only read from a host. Approve it each time.")
    return reach.hosts


def _in_folders(pattern: GrantPattern, request: ApprovalRequest) -> bool:
    """Whether every free argument is a path of the call, and every path is directly inside one of the folders."""
    named = _named_paths(request)
    free = [request.args.get(name) for name in pattern.free]
    if not all(isinstance(value, str) and value in named for value in free):
        return False
    return _only_uses_files(request.tool) and all(str(path.parent) in pattern.folders for path in request.paths)


def _named_paths(request: ApprovalRequest) -> frozenset[str]:
    """The path arguments as given; empty if the tool's list and the resolved paths differ in length."""
    touches = request.tool.touches
    named = list(touches(request.args)) if touches is not None else []
    return frozenset(named) if len(named) == len(request.paths) else frozenset()


def _bound_args(tool: Tool, args: Args) -> Args:
    if tool.source != "builtin":
        return dict(args)
    return {name: value for name, value in args.items() if name not in UNBOUND_ARGS}


def _only_reads(tool: Tool) -> bool:
    return tool.effects is not None and tool.effects <= READING_EFFECTS


def _only_uses_files(tool: Tool) -> bool:
    return tool.effects is not None and tool.effects <= FILE_EFFECTS


def _depends_on_cwd(request: ApprovalRequest) -> bool:
    """Whether the working directory changes what the call does: for commands, unknown tools and implicit files."""
    effects = request.tool.effects
    return effects is None or "process" in effects or (bool(effects & FILE_EFFECTS) and not request.paths)
