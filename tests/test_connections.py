"""Only `net` opens connections: everything else goes through its gateway, so that it is checked and logged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast
from tests.syntax import parsed

FOLDER = Path(holdfast.__file__).parent

MODULES = re.compile(
    r"(?:urllib\.request|urllib3|http\.client|ftplib|smtplib|poplib|imaplib|nntplib|telnetlib|xmlrpc|requests|aiohttp"
    r"|httpx|httpcore2?|websockets?|dns|dnslib|paramiko|asyncssh|pycurl|grpc|socks|_socket|ssl\.get_server"
    r"|google\.auth\.transport|botocore|boto3|kubernetes)(?:\..*)?"
)
"""Modules that open connections of their own."""
FUNCTIONS = re.compile(
    r"asyncio\.(?:open_connection|streams\..*)|socket\.(?:socket|create_connection|getaddrinfo|gethostby.*|fromfd)"
    r"|anyio\.(?:connect_.*|create_udp.*|create_connected.*|getaddrinfo)"
    r"|httpx2\.(?:Client|get|post|put|patch|delete|head|options|request|stream|HTTPTransport|AsyncHTTPTransport)"
    r"|holdfast\.net\.gateway\.Gateway(?:\..*)?"
)
"""Functions that connect, or make a gateway without the log."""
METHODS = frozenset(
    {"connect", "connect_ex", "create_connection", "create_datagram_endpoint", "sock_connect", "sock_sendto", "sendto"}
)
"""Methods that connect, of any object."""
NEEDED = {
    "httpx2.AsyncClient": ("transport", "trust_env"),
    "openai.AsyncOpenAI": ("http_client",),
    "anthropic.AsyncAnthropic": ("http_client",),
    "google.genai.types.HttpOptions": ("httpx_async_client",),
}
"""Clients that are allowed if they are given the gateway's transport or a client that has it."""

ALLOWED = {
    ("sandbox/proxy.py", "socket.socket"): "a descriptor that the relay in the sandbox passed",
    ("sandbox/supervisor/server.py", "_socket"): "descriptors of socket pairs, in a process that imports little",
    ("sandbox/network_relay.py", "socket.socket"): "a socket pair, in a sandbox without network",
    ("sandbox/attacks.py", "socket.socket"): "an escape test, inside the sandbox",
    ("sandbox/attacks.py", ".connect"): "an escape test, inside the sandbox",
    ("sandbox/escape_tests.py", "socket.socket"): "servers that the escape tests try to reach",
    ("store/database.py", ".connect"): "opens an SQLite file",
    ("store/memory/database.py", ".connect"): "opens an SQLite file",
    ("store/people.py", ".connect"): "opens an SQLite file",
    ("tools/storage/records.py", ".connect"): "opens an SQLite file",
}


def connections(tree: ast.AST) -> Iterator[str]:
    """Yield everything that could open a connection: full names, or `.method`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if MODULES.fullmatch(alias.name):
                    yield alias.name
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if MODULES.fullmatch(node.module) or MODULES.fullmatch(full):
                    yield full
                names[alias.asname or alias.name] = full
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        call = called.get(id(node))
        full = _dotted(node, names)
        if isinstance(node, ast.Attribute) and node.attr in METHODS and call is not None and full not in names.values():
            yield f".{node.attr}"
        elif full in NEEDED:
            given = {} if call is None else {word.arg: word.value for word in call.keywords}
            safe = all(name in given for name in NEEDED[full]) and _is_false(given.get("trust_env"), needed=full)
            if call is not None and not safe:
                yield full
        elif full is not None and FUNCTIONS.fullmatch(full) and call is not None:
            yield full


def _is_false(value: ast.expr | None, *, needed: str) -> bool:
    return "trust_env" not in NEEDED[needed] or (isinstance(value, ast.Constant) and value.value is False)


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join((names[node.id], *reversed(parts)))


@cache
def in_source() -> frozenset[tuple[str, str]]:
    """Return each file outside `net` with what it could open a connection with."""
    paths = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*.py")}
    return frozenset(
        (where, found)
        for where, path in paths.items()
        if not where.startswith("net/")
        for found in connections(parsed(path))
    )


@pytest.mark.spec("N2c")
def test_nothing_outside_net_opens_a_connection() -> None:
    assert sorted(in_source() - set(ALLOWED)) == []


@pytest.mark.spec("N2c")
def test_each_exception_is_still_needed() -> None:
    assert sorted(set(ALLOWED) - in_source()) == []


@pytest.mark.spec("N2c")
@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nasyncio.open_connection('a', 1)",
        "from asyncio import open_connection as o\no('a', 1)",
        "import socket as s\ns.create_connection(('a', 1))",
        "from socket import socket\nsocket()",
        "import socket\nx = socket.socket(); x.connect(('a', 1))",
        "import urllib.request",
        "from urllib import request",
        "from http.client import HTTPConnection",
        "import httpx2\nhttpx2.get('http://a')",
        "import httpx2\nhttpx2.AsyncClient()",
        "import httpx2\nhttpx2.AsyncClient(transport=t)",
        "import httpx2\nhttpx2.AsyncClient(transport=t, trust_env=True)",
        "def f():\n    from openai import AsyncOpenAI\n    AsyncOpenAI(api_key='')",
        "loop.create_connection(f, 'a', 1)",
        "from holdfast.net.gateway import Gateway\nGateway(x)",
        "from holdfast.net.gateway import Gateway\nGateway.for_origin(x)",
    ],
)
def test_a_connection_is_found(code: str) -> None:
    assert list(connections(ast.parse(code)))


@pytest.mark.spec("N2c")
def test_a_client_with_the_transport_of_the_gateway_is_allowed() -> None:
    code = "import httpx2\nhttpx2.AsyncClient(transport=t, trust_env=False)\nx: httpx2.AsyncClient"
    assert not list(connections(ast.parse(code)))
