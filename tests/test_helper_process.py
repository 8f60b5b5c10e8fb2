"""No helper process of holdfast reads anything from the project."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import pwd
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Config, Runtime, helper_process, tool
from holdfast.chat.lua.host import LuaHost, Script
from holdfast.cli import elicitation, prompt
from holdfast.config.config import SandboxConfig, SecretSource
from holdfast.contract.command import Command
from holdfast.fuzz.fuzzer import create_project
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.sandbox import Sandbox
from holdfast.tools import builtin_tools
from holdfast.tools.search import engines
from tests.hostile_project import HostileProject
from tests.process_starters import starts
from tests.runtime.support import run
from tests.syntax import parsed

PACKAGE = Path(holdfast.__file__).parent
C_LIBRARY = "calls a C function that Python does not provide"
GIVEN_NAME = "imports a module that the user named, or one of holdfast's"
LOADED = "checks whether a module is already imported"
EXCEPTIONS: dict[str, tuple[str, set[str]]] = {
    "helper_process.py": (
        "starts all helpers",
        {"asyncio.create_subprocess_exec", "os.posix_spawn", "subprocess.Popen", "subprocess.run", "sys.executable"},
    ),
    "sandbox/supervisor/process.py": (
        "the supervisor starts the model's command in the sandbox",
        {"__import__", "ctypes", "os.execve", "os.fork", "os.posix_spawn"},
    ),
    "sandbox/supervisor/server.py": ("the supervisor forks its workers, which import nothing more", {"os.fork"}),
    "sandbox/network_relay.py": ("inside the sandbox; starts the model's command", {"ctypes", "os.posix_spawnp"}),
    "sandbox/attacks.py": ("inside the sandbox; an escape test forks", {"ctypes", "globals", "os.fork"}),
    "fuzz/driver.py": ("inside the sandbox; runs commands in order to see what they do", {"subprocess.Popen"}),
    "fs/own_paths.py": ("names the interpreter in order to protect it", {"sys.executable"}),
    "cli/commands/tour.py": ("prints how to start holdfast", {"sys.executable"}),
    "tools/browser/worker.py": ("a helper; Playwright starts Chromium in its empty environment", {"playwright"}),
    "tools/browser/page.py": ("part of that helper; uses Playwright's types", {"playwright"}),
    "tools/browser/page_guard.py": ("part of that helper; uses Playwright's types", {"playwright"}),
    "runtime/tool_process.py": (
        "runs the function of a tool in its own process",
        {"ctypes", "importlib.import_module", "runpy", "sys.modules", "sys.modules.get"},
    ),
    "chat/lua/worker.py": (C_LIBRARY, {"ctypes"}),
    "privileges.py": (C_LIBRARY, {"ctypes"}),
    "fs/beneath.py": (C_LIBRARY, {"ctypes"}),
    "fs/replace.py": (C_LIBRARY, {"ctypes"}),
    "__init__.py": (GIVEN_NAME, {"globals", "importlib.import_module"}),
    "cli/root.py": (GIVEN_NAME, {"importlib.import_module"}),
    "tools/__init__.py": (GIVEN_NAME, {"importlib.import_module"}),
    "registry/registration.py": (GIVEN_NAME, {"importlib.import_module"}),
    "contract/function_tool.py": (LOADED, {"sys.modules", "sys.modules.get"}),
    "rules/resolvers.py": (GIVEN_NAME, {"importlib.import_module"}),
    "registry/source_loader.py": (LOADED, {"asyncio", "sys.modules.get"}),
    "runtime/results.py": (LOADED, {"sys.modules.get"}),
    "runtime/events.py": (LOADED, {"sys.modules"}),
}
"""What each file may use, and why. Unused entries fail, too."""


@pytest.mark.spec("N8")
def test_only_helper_process_starts_processes() -> None:
    found = {str(file.relative_to(PACKAGE)): set(starts(parsed(file))) for file in PACKAGE.rglob("*.py")}
    allowed = {name: used for name, (_, used) in EXCEPTIONS.items()}
    assert {name: used for name, used in found.items() if used} == allowed


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(['x'])", "import webbrowser", "from subprocess import Popen", "os.execve(a, b, c)", "os.fork()",
        "asyncio.create_subprocess_exec('x')", "os.posix_spawnp(a, b, c)", "argv = [sys.executable, '-m', 'x']",
        "from os import system", "import multiprocessing.pool", "asyncio.create_subprocess_shell('x')",
        "import os as o; o.system('x')", "import subprocess as sp; sp.run(['x'])", "from os import system as s",
        "o = os; o.execv('a', [])", "(o := os).execv('a', [])", "def f(o=os): o.system('x')", "f(os)", "[os][0].fork()",
        "from subprocess import *", "from os import *", "import os.path as p; p.os.system('x')", "self.os.system('x')",
        "from asyncio import subprocess as s; s.create_subprocess_exec('x')",
        "from asyncio import subprocess; f(subprocess)", "asyncio.subprocess.create_subprocess_exec('x')",
        "loop.subprocess_exec(f, 'x')", "await loop.subprocess_shell(f)",
        "import asyncio.subprocess as a; a.create_subprocess_shell('x')", "subprocess.Popen[bytes](['x'])",
        "from concurrent.futures import ProcessPoolExecutor",
        "from concurrent.futures.process import ProcessPoolExecutor",
        "import concurrent.futures as c; c.ProcessPoolExecutor()", "getattr(os, 'system')('x')",
        "getattr(os, name)('x')", "getattr(module, 'posix_spawn')(a)", "vars(os)['fork']()", "os.__dict__['fork']()",
        "subprocess.__dict__['run']", "import posix", "from posix import execve", "import _posixsubprocess",
        "import ctypes; ctypes.CDLL(None)", "from ctypes.util import find_library",
        "import importlib; importlib.import_module('os')", "from importlib import import_module as load; load('os')",
        "__import__('os').system('x')", "exec('x')", "sys.modules['os'].system('x')", "from sys import modules",
        "from sys import executable", "globals()['os']", "import builtins", "import anyio; anyio.run_process(['x'])",
        "from anyio import open_process", "import anyio.to_process", "from mcp.client.stdio import stdio_client",
        "from mcp import stdio_client", "import click; click.edit('x')", "from click import launch",
        "click.echo_via_pager('x')", "import runpy", "import pydoc", "import code", "import pty", "import venv",
        "import distutils.spawn", "uuid.getnode()", "platform.processor()", "from socketserver import ForkingMixIn",
        "import trio", "from subprocess import run as r; x = r",
    ],
)  # fmt: skip
def test_every_way_to_start_a_process_is_found(line: str) -> None:
    code = f"async def main():\n    {line}" if line.startswith("await") else line
    assert list(starts(ast.parse(code)))


@pytest.mark.parametrize(
    "line",
    [
        "os.path.join('a')", "hasattr(os, 'O_PATH')", "getattr(os, 'O_PATH', os.O_RDONLY)",
        "sys.platform.startswith('x')", "def f(p: subprocess.Popen[bytes]) -> asyncio.subprocess.Process: ...",
        "asyncio.run(main())", "platform.machine()", "from subprocess import DEVNULL, TimeoutExpired",
        "commands.items()", "code.encode()", "asyncio.subprocess.PIPE",
        "from concurrent.futures import ThreadPoolExecutor",
        "if TYPE_CHECKING:\n    import subprocess\n    x = subprocess",
    ],
)  # fmt: skip
def test_code_that_starts_no_process_is_not_reported(line: str) -> None:
    assert not list(starts(ast.parse(line)))


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileProject]:
    project = HostileProject(tmp_path)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(project.root)])
    yield project
    project.check()


@tool(effects=(), runs="process")
def where_it_runs() -> list[str]:
    """Return the working directory, the file of an imported module, and the import path."""
    import json as imported

    return [str(Path.cwd()), imported.__file__ or "", *sys.path]


@pytest.mark.spec("N8")
def test_a_tool_process_runs_in_the_project_and_imports_nothing_from_it(hostile: HostileProject) -> None:
    runtime = Runtime(tools=[where_it_runs], workspace=Workspace(root=hostile.root, cwd=str(hostile.root)))
    result = run(runtime.call("where_it_runs"))
    assert isinstance(result.structured, list), result.error
    cwd, imported, *path = map(str, result.structured)
    assert cwd == str(hostile.root)
    assert not imported.startswith(str(hostile.root))
    assert "" not in path and path.count(str(hostile.root)) == 1
    library, installed = str(Path(os.__file__).parent), site.getsitepackages()[0]
    assert path.index(library) < path.index(installed) < path.index(str(hostile.root))


PROGRAM = """
import asyncio
from holdfast import Runtime
from lupa import shout
print(asyncio.run(Runtime(tools=[shout]).call("shout", {"word": "yes"})).output)
"""
TOOL = """
from holdfast import tool
from beside import louder

@tool(effects=(), runs="process")
def shout(word: str) -> str:
    return louder(word)
"""


@pytest.mark.spec("N8")
@pytest.mark.parametrize("started", ["file", "text"])
def test_a_tool_of_the_users_program_runs_in_a_process(tmp_path: Path, started: str) -> None:
    """Also if it has the name of an installed package, and if the working directory is on the path as ''."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "lupa.py").write_text(TOOL)
    (tmp_path / "beside.py").write_text("def louder(word):\n    return word.upper()\n")
    argv = [sys.executable, "program.py"] if started == "file" else [sys.executable, "-c", PROGRAM]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "YES\n", done.stderr


@pytest.mark.spec("N8")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_commands_searches_and_git_start_nothing_from_the_project(
    hostile: HostileProject, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_ripgrep", _nowhere)
    (hostile.root / "notes.txt").write_text("needle\n")
    config = Config(sandbox=SandboxConfig(mode=mode))  # pyright: ignore[reportArgumentType]

    async def main() -> list[holdfast.Result]:
        async with Runtime(tools=builtin_tools(), root=hostile.root, config=config, asker=_approve) as runtime:
            searched = await runtime.call("code.search", {"query": "needle"})
            return [searched, await runtime.call("file.find", {"pattern": "*.txt"}), await runtime.call("git.log")]

    searched, found, log = run(main(), 90)
    assert "notes.txt" in searched.output, searched
    assert "notes.txt" in found.output, found
    assert "git log failed" in (log.error or ""), log


def _nowhere(_root: Path) -> None:
    """Ripgrep is not installed."""


async def _approve(held: holdfast.PendingCall) -> holdfast.Answer:
    return holdfast.Answer(kind="approve", by="test")


@pytest.mark.spec("N8")
def test_the_escape_tests_and_a_wrapped_command_start_nothing_from_the_project(hostile: HostileProject) -> None:
    sandbox = Sandbox(SandboxConfig(mode="required"), root=hostile.root, remember=False)
    assert sandbox.backend() is not None, sandbox.problem()
    wrapped = sandbox.wrap_command(["/bin/echo", "contained"])
    done = subprocess.run(wrapped, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("contained\n", 0), done.stderr


@pytest.mark.spec("N8")
def test_the_lua_process_imports_nothing_from_the_project(hostile: HostileProject) -> None:
    with LuaHost() as host:
        found = host.evaluate(Script('flemma.opt.tools = {"read"}', {}))
    assert found


@pytest.mark.spec("N8")
def test_the_command_of_a_secret_is_found_only_outside_the_project(hostile: HostileProject) -> None:
    outside = hostile.root.parent / "programs"
    outside.mkdir()
    (outside / "fetch").write_text('#!/bin/sh\npwd\necho "${PYTHONPATH-unset} ${BASH_ENV-unset}"\n')
    (outside / "fetch").chmod(0o755)
    os.environ["PATH"] = f"{os.environ['PATH']}:{outside}"
    (hostile.root / "bin" / "fetch").write_text((hostile.root / "bin" / "git").read_text())
    (hostile.root / "bin" / "fetch").chmod(0o755)
    sources = {"good": SecretSource(command=("fetch",)), "bad": SecretSource(command=("./fetch",))}
    runtime = Runtime(root=hostile.root, config=Config(secrets=sources))
    folder, python, bash = runtime.secrets.get("good").split()
    assert (folder, bash) == ("/", "unset") and str(hostile.root) not in python
    with pytest.raises(holdfast.HoldfastError, match="use its full path"):
        runtime.secrets.get("bad")


@pytest.mark.spec("N8")
def test_editor_and_browser_are_never_programs_in_the_project(
    hostile: HostileProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = hostile.root.parent / "programs"
    outside.mkdir()
    (outside / "editor").write_text('#!/bin/sh\npwd > "$1"\n')
    (outside / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {outside}/opened\n')
    for name in ("editor", "xdg-open"):
        (outside / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"bin:{hostile.root}/bin:{outside}:/usr/bin:/bin")
    left = asyncio.run(prompt.edit_text("text", ".json"))
    assert left is not None and not left.startswith(str(hostile.root))
    assert asyncio.run(elicitation.open_address("https://example.org/")) is None
    assert (outside / "opened").read_text() == "https://example.org/\n"
    monkeypatch.setenv("EDITOR", "./editor")
    assert asyncio.run(prompt.edit_text("text", ".json")) is None


@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    "line",
    ["{root}/bin/editor", "{link}/editor", "{root}/../project/bin/editor", "sh {root}/editor",
     "env PATH={root}/bin editor", "vim -u{root}/vimrc", "sh -c '. {root}/startup'", "sh ~/project/editor",
     "editor 'a"],
)  # fmt: skip
def test_an_editor_or_browser_that_points_into_the_project_is_refused(
    hostile: HostileProject, line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    link = hostile.root.parent / "link"
    link.symlink_to(hostile.root / "bin")
    command = line.format(root=hostile.root, link=link)
    monkeypatch.setenv("EDITOR", command)
    monkeypatch.setenv("BROWSER", command)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(helper_process, "start", _never)
    assert asyncio.run(prompt.edit_text("text", ".json")) is None
    assert "Cannot start the editor: " in capfd.readouterr().err
    with pytest.raises(helper_process.ProgramRefused, match=r"project|quotes"):
        helper_process.user_command(command, hostile.root)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a process was started")


@pytest.mark.spec("N8")
def test_the_program_of_a_secret_may_not_be_in_the_project(hostile: HostileProject) -> None:
    source = SecretSource(command=(str(hostile.root / "bin" / "cat"), "x"))
    runtime = Runtime(root=hostile.root, config=Config(secrets={"bad": source}))
    with pytest.raises(holdfast.HoldfastError, match=r"secret 'bad' cannot be run: .* is in the project"):
        runtime.secrets.get("bad")


LEADING = (
    "VIM", "VIMRUNTIME", "MYVIMRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "ZDOTDIR", "EMACSLOADPATH",
    "LUA_PATH", "CLASSPATH", "OPENSSL_CONF", "GCONV_PATH", "LOCPATH", "GTK_MODULES", "QT_PLUGIN_PATH",
    "GIO_EXTRA_MODULES", "GNUPGHOME", "PASSWORD_STORE_EXTENSIONS_DIR", "KUBECONFIG", "PAGER", "NEVER_HEARD_OF",
)  # fmt: skip
CODE = (
    "NVIM_APPNAME", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "LUA_INIT", "LUA_INIT_5_4", "PERL5DB", "JAVA_TOOL_OPTIONS",
    "DOTNET_STARTUP_HOOKS", "LESSOPEN", "DYLD_INSERT_LIBRARIES", "LD_AUDIT", "BASH_FUNC_ls%%", "PYTHONPATH", "GIT_SSH",
)  # fmt: skip


@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    "value", ["{0}", "{0}/x", "/usr/share:{0}/x", "a={0}/x,b", "@{0}/x", "|{0}/x %s", "-I{0}/x", "file://{0}/x",
              "{1}/x", "~/project/x", "$HOME/project/x", "/nowhere/../{0}"],
)  # fmt: skip
def test_no_variable_passed_to_user_programs_points_into_the_project(
    hostile: HostileProject, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = hostile.root.parent / "link"
    link.symlink_to(hostile.root)
    for name in LEADING:
        monkeypatch.setenv(name, value.format(hostile.root, link))
    for name in CODE:
        monkeypatch.setenv(name, "touch x")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("BESIDE", f"{hostile.root}-2/x")
    found = helper_process.user_environment(hostile.root)
    assert found.keys().isdisjoint((*LEADING, *CODE))
    assert found["XDG_RUNTIME_DIR"] == "/run/user/1000"
    assert found["BESIDE"] == f"{hostile.root}-2/x"
    assert found["HOME"] == str(hostile.root.parent)
    assert str(hostile.root) not in found["PATH"] and "/usr/bin" in found["PATH"]


@pytest.mark.spec("N8")
def test_a_home_in_the_project_is_replaced_by_the_login_home(
    hostile: HostileProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(hostile.root / "home"))
    assert helper_process.user_environment(hostile.root)["HOME"] == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setenv("HOME", "/somewhere")
    assert helper_process.user_environment(Path("/"))["HOME"] == "/somewhere"


@pytest.mark.spec("N8")
def test_the_fuzzer_creates_its_repository_with_the_system_git(hostile: HostileProject, tmp_path: Path) -> None:
    create_project(tmp_path / "fuzz")
    assert (tmp_path / "fuzz" / "project" / ".git" / "HEAD").is_file()


@pytest.mark.spec("N8", "K3a")
def test_the_command_written_for_mcp_clients_starts_only_holdfast(hostile: HostileProject) -> None:
    for name in ("PYTHONHOME", "PYTHONPATH", "PATH"):
        os.environ.pop(name)
    command = helper_process.holdfast_module("holdfast", "mcp", "install", "claude", "--print", "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    entry = json.loads(done.stdout)["entry"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][:3] == ["-I", "-m", "holdfast"]
    argv = [entry["command"], *entry["args"][:3], "call", "calculator", "expression=1+1"]
    answered = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **hostile.environment}
    )
    assert answered.stdout == "2\n", answered.stderr


@pytest.mark.spec("N8")
@pytest.mark.parametrize("words", [("completion", "bash"), ("doctor", "--json"), ("tools",), ("call", "system.info")])
def test_cli_commands_start_nothing_from_the_project(hostile: HostileProject, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        helper_process.holdfast_module("holdfast", *words), capture_output=True, text=True, timeout=110, check=False
    )
    assert done.stdout, done.stderr


@pytest.mark.spec("N8")
def test_holdfast_in_the_users_site_packages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(PACKAGE.parent))
    program, *words = helper_process.holdfast_module("holdfast", "--version")
    assert words == ["-E", "-P", "-m", "holdfast", "--version"]
    assert subprocess.run([program, *words], capture_output=True, timeout=30, check=True).stdout.startswith(b"holdfast")


@pytest.mark.spec("N8")
def test_a_program_without_an_absolute_path_is_not_started() -> None:
    with pytest.raises(FileNotFoundError, match="could name a program of the project"):
        helper_process.start(("git", "status"))


def test_a_contained_command_in_a_hostile_project_runs(hostile: HostileProject) -> None:
    """The traps are for helper processes: a command may use whatever the user allows."""
    sandbox = Sandbox(SandboxConfig(mode="off"), root=hostile.root)
    assert sandbox.launch(Command(argv=("/bin/true",))).argv == ("/bin/true",)


@pytest.mark.spec("X4")
def test_a_spawned_helper_starts_in_its_own_session() -> None:
    """Ctrl-C reaches every process of the terminal's foreground process group."""
    reading, writing = os.pipe()
    told = "import os; os.write(1, b'%d %d' % (os.getsid(0), os.getpid()))"
    pid = helper_process.spawn(helper_process.isolated_python("-c", told), {}, [(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    with os.fdopen(reading) as file:
        session, own = map(int, file.read().split())
    os.waitpid(pid, 0)
    assert session == own == pid
