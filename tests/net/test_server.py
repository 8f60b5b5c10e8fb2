"""Listening sockets of HTTP servers. What a client may keep open is tested through the MCP server and the daemon."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.contract.errors import ConfigError
from holdfast.net.server import is_served, listen, listen_unix


def test_a_used_port_is_named_in_the_error() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} cannot be used"):
            listen("127.0.0.1", port)


def test_a_unix_socket_is_private_and_one_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    listen_unix(path).close()  # the file stays, as after a kill
    assert not is_served(path)
    with listen_unix(path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert is_served(path)


def test_a_unix_socket_that_is_served_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    with listen_unix(path), pytest.raises(ConfigError, match="Another process serves"):
        listen_unix(path)
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(str(path))


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        listen_unix(tmp_path / "missing" / "serve.sock")
