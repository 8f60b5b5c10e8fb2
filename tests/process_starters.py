"""Finds code that could start a process, under any alias.

Names are resolved through imports. A module that can start processes may be used only as `module.attribute`: passing
it on, assigning it or looking up attributes by string counts as starting a process. Modules whose purpose is to start
processes, or to run code that is not visible here, count as soon as they are imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

STARTERS = re.compile(
    r"os\.(?:exec|spawn|posix_spawn|fork|system|popen|startfile|__(?!file__)).*"
    r"|subprocess\.(?:Popen|run|call|check_|getoutput|getstatusoutput|__).*"
    r"|asyncio\.(?:create_subprocess|__).*|asyncio\.subprocess\.(?:create_|__).*|asyncio\.base_subprocess.*"
    r"|concurrent\.futures\.(?:Process|process).*"
    r"|sys\.(?:executable|_base_executable|modules|__).*"
    r"|importlib\.(?:import_module|reload|__).*"
    r"|anyio\.(?:run_process|open_process|to_process).*|mcp\.client\.stdio(?:\..*)?|mcp\.(?:stdio_client|StdioServer).*"
    r"|mcp\.os\.(?:posix|win32).*|click\.(?:edit|launch|echo_via_pager|clear|termui|_termui_impl).*"
    r"|platform\.(?:processor|architecture|platform|uname|popen|mac_ver|win32|_).*|uuid\.(?:getnode|uuid1)|socketserver\.Fork.*|http\.server\.CGI.*|shutil\.os.*"
)
"""Prefixes of names that start a process, name an interpreter, or give access to any module."""
MODULES = re.compile(
    r"(?:playwright|posix|nt|pty|multiprocessing|webbrowser|ctypes|cffi|runpy|pydoc|code|codeop|pdb|venv|ensurepip|pip|commands"
    r"|distutils|setuptools|_posixsubprocess|_winapi|builtins|trio|sh|plumbum|pexpect|ptyprocess|cgitb|antigravity)"
    r"(?:\..*)?"
)
"""Modules whose import is reported."""
WHOLE = frozenset(
    {"os", "subprocess", "asyncio", "sys", "importlib", "anyio", "asyncio.subprocess", "concurrent.futures"}
)
"""Modules that may be used only as `module.attribute`."""
ANYWHERE = frozenset({"subprocess_exec", "subprocess_shell", "create_subprocess_exec", "create_subprocess_shell"})
"""Methods of an event loop, under any variable name."""
BUILTINS = frozenset({"exec", "eval", "compile", "__import__", "__builtins__", "globals"})
LOOKED_UP = re.compile(
    r"(?:exec|spawn)[lv]p?e?|posix_spawnp?|fork|forkpty|popen|Popen|check_(?:output|call)|__import__"
)
"""Strings with which an attribute could be looked up."""


def starts(tree: ast.AST) -> Iterator[str]:
    """Yield everything that could start a process, by its full name."""
    nodes = tuple(ast.walk(tree))
    names = _imported(nodes)
    types = _in_annotations(nodes)
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    asked = _asked_for_a_name(nodes)
    for node in nodes:
        if id(node) in types:
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _by_import(node)
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            yield from _by_name(_dotted(node, names))
        elif isinstance(node, ast.Name) and id(node) not in inner and id(node) not in asked:
            full = names.get(node.id, node.id)
            if full in WHOLE or (node.id in BUILTINS and node.id not in names):
                yield full
            elif full != node.id:
                yield from _by_name(full)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LOOKED_UP.fullmatch(node.value):
            yield f"'{node.value}'"


def _asked_for_a_name(nodes: Sequence[ast.AST]) -> set[int]:
    """Return the module nodes in `hasattr(os, "O_PATH")`, which are harmless: the attribute is a visible string."""
    calls = (node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return {
        id(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr") and len(call.args) > 1
        if isinstance(call.args[0], ast.Name) and isinstance(word := call.args[1], ast.Constant)
        if not STARTERS.fullmatch(f"{call.args[0].id}.{word.value}") and not LOOKED_UP.fullmatch(str(word.value))
    }


def _imported(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Return what the imported names in the file stand for."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _in_annotations(nodes: Sequence[ast.AST]) -> set[int]:
    """Return the nodes in annotations and in `if TYPE_CHECKING`, which start nothing."""
    found: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            found.append(node.returns)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found += node.body
    return {id(inner) for node in found for inner in ast.walk(node)}


def _by_import(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            full = alias.name
        elif node.level or node.module is None:
            continue
        else:
            full = f"{node.module}.{alias.name}"
            if alias.name == "*" and (node.module in WHOLE or MODULES.fullmatch(node.module)):
                yield full
        if MODULES.fullmatch(full):
            yield full.partition(".")[0]
        elif STARTERS.fullmatch(full):
            yield full


def _by_name(full: str) -> Iterator[str]:
    parts = full.split(".")
    tails = [".".join(parts[at:]) for at in range(len(parts))]
    if ANYWHERE.intersection(parts) or any(STARTERS.fullmatch(tail) for tail in tails):
        yield full
    elif any(tail in WHOLE for tail in tails[1:]):
        yield full  # a module reached through another one


def _dotted(node: ast.Attribute, names: dict[str, str]) -> str:
    """Return `a.b.c` with `a` resolved; only the attributes if the value is not a name."""
    parts: list[str] = []
    value: ast.expr = node
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if isinstance(value, ast.Name):
        parts.append(names.get(value.id, value.id))
    return ".".join(reversed(parts))
