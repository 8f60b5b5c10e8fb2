""" "Always allow": the narrow rule a yes becomes, what is refused as too wide, and when a rule covers a call.

A grant names one tool with one definition and one set of arguments, under the sandbox and the network it was given
under; for a command also the content of the project files it names. It can be widened on request to the files of one
folder, for tools that only read to all arguments, and for shell commands to one program that only reads, that checks
any file of the project, or to the scripts of one family. A grant of the user holds in every project: what lies in the
project it was given in is written as lying in `{project}`.
"""

from __future__ import annotations

import re
from time import time
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec
from msgspec import Struct

from holdfast.contract.call import NamedFile
from holdfast.contract.enums import READING_EFFECTS
from holdfast.contract.errors import GrantRefused
from holdfast.contract.json import Args, canonical_json
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest, Confinement
from holdfast.rules.shell.verdicts import word_set

if TYPE_CHECKING:
    from holdfast.store.ledger import Grant, Grants, Scope

Width = Literal["exact", "folder", "tool", "command"]

MAX_PATTERN_BYTES: Final = 64 * 1024
FILE_EFFECTS: Final = frozenset({"fs.read", "fs.write"})
UNBOUND_ARGS: Final = frozenset({"label", "timeout"})
"""Arguments of built-in tools that do not say what is done: a label is only shown, a time limit only ends it."""
PROJECT: Final = "{project}"
"""Stands for the folder of whichever project a call is in. A path of the system begins with `/`, so it is none."""
NEVER_WIDENED: Final = word_set("""
    ash bash csh dash fish ksh powershell pwsh sh zsh awk deno lua node osascript perl php python ruby sed tclsh doas
    su sudo chroot nsenter unshare command env eval exec nice nohup setsid source stdbuf time timeout xargs busybox
    docker find git kubectl make npm npx pip podman ssh tar uv uvx less man screen tmux vi vim watch
""")
"""Commands that run what their arguments say, so that a rule about the first word would be a rule about everything."""
_SESSION_SCOPES: Final = ("once", "session")
_VERSION: Final = re.compile(r"[\d.]+$")


class GrantPattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which calls of a tool a grant covers."""

    definition: str
    """Digest of the tool's definition: a tool that has changed is asked about again."""
    args: Args
    """All arguments but those in `free`, with their exact values."""
    any_args: bool = False
    """Whatever the arguments are; only ever true for tools that read."""
    paths: tuple[str, ...] | None = None
    """The resolved paths the call must touch, in order."""
    free: tuple[str, ...] = ()
    """Path arguments that may name any file directly in one of the folders."""
    folders: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The words a shell command begins with. Whatever follows must be known to only read, unless `rest` says more."""
    rest: Literal["reads", "files", "script"] = "reads"
    """What may follow: with `files` any file of the project and exactly `options`, for programs that only check files
    or format them; with `script` the last word is the beginning of the name of a script."""
    options: tuple[str, ...] = ()
    cwd: str | None = None
    root: str | None = None
    given_under: Confinement | None = None
    """What held the call it was given for; with less than that it covers nothing, and without it neither."""
    files: tuple[NamedFile, ...] = ()
    """The project files the command names, with what was in them."""


class GrantSpec(Struct, frozen=True, kw_only=True):
    """A grant that has not been stored yet."""

    tool: str
    pattern: Args
    """A `GrantPattern` as JSON."""
    scope: Scope
    by: str
    session: str | None = None


class GrantMatcher:
    """The book of grants a runtime looks into, over what is stored."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    def find(self, request: ApprovalRequest) -> Grant | None:
        """A grant that covers the call; one that can be used any number of times before one that is used up."""
        found = self._grants.list(tool=request.tool.name, session=request.session)
        covering = (grant for grant in found if matches(grant, request))
        return min(covering, key=lambda grant: grant.uses is not None, default=None)

    def consume(self, request: ApprovalRequest) -> bool:
        """Whether the call is covered now, using the grant up if it is for once. Ask just before the call runs."""
        grant = self.find(request)
        return grant is not None and self._grants.consume(grant.id, request.call_id)

    def supports(self, scope: Scope) -> bool:
        """Whether there is a place for grants of this scope."""
        return scope != "user" or self._grants.has_user

    def add(self, spec: GrantSpec, *, expires: float | None = None) -> Grant:
        """Store a rule that `narrow_grant` made."""
        return self._grants.add(
            tool=spec.tool, pattern=spec.pattern, scope=spec.scope, by=spec.by, session=spec.session, expires=expires
        )


def narrow_grant(request: ApprovalRequest, scope: Scope, by: str, *, width: Width = "exact") -> GrantSpec:
    """The rule for "always allow" of this call, or `GrantRefused` when what is asked for would be too wide."""
    tool = request.tool
    if scope == "project" and request.root is None:
        raise GrantRefused(f"There is no project here to allow '{tool.name}' in; allow it for the session instead.")
    if width != "exact":
        _check_width(request, scope, width)
    pattern = GrantPattern(
        definition=tool.digest,
        args={} if width == "tool" else _bound_args(tool, request.args),
        any_args=width == "tool",
        paths=tuple(map(str, request.paths)) if width == "exact" else None,
        cwd=request.cwd if _depends_on_cwd(request) else None,
        root=str(request.root) if scope == "project" else None,
        given_under=request.confinement(),
        files=request.files() if width == "exact" else (),
    )
    if width == "folder":
        pattern = _widen_to_folder(request, pattern)
    elif width == "command":
        pattern = _widen_to_command(request, pattern)
    if scope == "user":
        pattern = _rebase_paths(pattern, str(request.root), PROJECT) if request.root is not None else pattern
    if len(msgspec.json.encode(pattern)) > MAX_PATTERN_BYTES:
        raise GrantRefused(
            f"The arguments of this call of '{tool.name}' are too long to be remembered; approve it each time instead."
        )
    session = request.session if scope in _SESSION_SCOPES else None
    made = cast(Args, msgspec.to_builtins(pattern))
    return GrantSpec(tool=tool.name, pattern=made, scope=scope, by=by, session=session)


def matches(grant: Grant, request: ApprovalRequest, *, now: float | None = None) -> bool:
    """Whether a stored grant covers this call. Anything unreadable or out of place does not."""
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
    """Whether a rule covers the call it was made for."""
    return covers(msgspec.convert(spec.pattern, GrantPattern), request)


def covers(pattern: GrantPattern, request: ApprovalRequest) -> bool:
    """Whether the rule is about this call, and the call is held as strictly as the one it was made for."""
    if pattern.root is None and request.root is not None:
        pattern = _rebase_paths(pattern, PROJECT, str(request.root))
    if pattern.given_under is None or not _matches_call(pattern, request):
        return False
    return request.confinement().is_within(pattern.given_under)


def _rebase_paths(pattern: GrantPattern, before: str, after: str) -> GrantPattern:
    """The pattern with every path in one folder as the same path in another."""

    def move(path: str) -> str:
        return after + path[len(before) :] if path == before or path.startswith(f"{before}/") else path

    def moved(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(move, paths))

    held = pattern.given_under
    if held is not None:
        held = msgspec.structs.replace(
            held,
            writable=moved(held.writable),
            hidden=moved(held.hidden),
            protected=moved(held.protected),
            patterns=tuple(
                ": ".join((move(folder), text)) for folder, text in map(_split_hidden_pattern, held.patterns)
            ),
        )
    return msgspec.structs.replace(
        pattern,
        paths=None if pattern.paths is None else moved(pattern.paths),
        folders=moved(pattern.folders),
        cwd=None if pattern.cwd is None else move(pattern.cwd),
        given_under=held,
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
        raise GrantRefused(f"A yes for once is for exactly this call of '{tool.name}'; choose a longer scope.")
    if width == "command":
        return
    if tool.effects is None or "process" in tool.effects:
        raise GrantRefused(_too_wide_reason(request))
    if width == "folder" and not tool.effects <= FILE_EFFECTS:
        raise GrantRefused(f"'{tool.name}' does more than use files, so a folder is too wide; allow exactly this call.")
    if width == "tool" and not _only_reads(tool):
        raise GrantRefused(
            f"'{tool.name}' does more than read, so it cannot be allowed whatever its arguments are; "
            "allow exactly this call, or the folder."
        )


def _too_wide_reason(request: ApprovalRequest) -> str:
    word = _first_word(request.args.get("command"))
    if word in NEVER_WIDENED:
        return f"'{word}' runs whatever its arguments say; allow exactly this command instead."
    return f"'{request.tool.name}' may do anything, depending on its arguments; allow exactly this call instead."


def _first_word(command: object) -> str:
    words = command.split() if isinstance(command, str) else []
    return _VERSION.sub("", words[0].rpartition("/")[2]).lower() if words else ""


def _widen_to_command(request: ApprovalRequest, pattern: GrantPattern) -> GrantPattern:
    from holdfast.rules.shell.judgement import checking_prefix, reading_prefix, script_prefix
    from holdfast.rules.shell.location import is_shell_tool

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
    from holdfast.rules.shell.judgement import checking_prefix, has_prefix, script_prefix
    from holdfast.rules.shell.location import is_shell_tool

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
        raise GrantRefused(f"This call of '{request.tool.name}' names no file; allow exactly this call instead.")
    fixed = {name: value for name, value in pattern.args.items() if name not in free}
    folders = tuple(sorted({str(path.parent) for path in request.paths}))
    return msgspec.structs.replace(pattern, args=fixed, free=free, folders=folders)


def _in_folders(pattern: GrantPattern, request: ApprovalRequest) -> bool:
    """Every free argument is a path of the call, and every path lies directly in one of the folders."""
    named = _named_paths(request)
    free = [request.args.get(name) for name in pattern.free]
    if not all(isinstance(value, str) and value in named for value in free):
        return False
    return _only_uses_files(request.tool) and all(str(path.parent) in pattern.folders for path in request.paths)


def _named_paths(request: ApprovalRequest) -> frozenset[str]:
    """The path arguments as they were written; none if the tool's list and the resolved one do not agree."""
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
    """Commands and unknown tools mean something else elsewhere; so do files that were not named."""
    effects = request.tool.effects
    return effects is None or "process" in effects or (bool(effects & FILE_EFFECTS) and not request.paths)
