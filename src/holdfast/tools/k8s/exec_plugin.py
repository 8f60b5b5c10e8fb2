"""Credential plugins: programs of the user's kubeconfig that print a token or a client certificate.

They run as holdfast's own helpers do: outside the project, without variables that load code, with limits.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from holdfast.helper_process import ProgramRefused, start_async, user_environment, user_program
from holdfast.text.escape import clip_escaped
from holdfast.tools.k8s.kubeconfig import Access, ExecPlugin, KubeconfigError

SECONDS: Final = 30.0
_MAX_OUTPUT: Final = 1024 * 1024
_API: Final = "client.authentication.k8s.io/"
_VERSIONS: Final = frozenset({f"{_API}v1", f"{_API}v1beta1"})


class PluginStatus(Struct, frozen=True, kw_only=True):
    token: str | None = None
    certificate: str | None = field(name="clientCertificateData", default=None)
    key: str | None = field(name="clientKeyData", default=None)
    expires: datetime | None = field(name="expirationTimestamp", default=None)


class _ExecCredential(Struct, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion", default="")
    kind: str = ""
    status: PluginStatus | None = None


async def ask_plugin(access: Access, plugin: ExecPlugin, project: Path, seconds: float = SECONDS) -> PluginStatus:
    """Run the plugin of a context and return what it printed. Raises `KubeconfigError`."""
    name = f"The program {_quoted(plugin.command)}, with which the context {_quoted(access.context)} logs in,"
    if plugin.api_version not in _VERSIONS:
        raise KubeconfigError(
            f"{name} uses the interface {_quoted(plugin.api_version)}. Supported are {', '.join(sorted(_VERSIONS))}."
        )
    if plugin.interactive == "Always":
        raise KubeconfigError(f"{name} needs a terminal (interactiveMode), which tools do not have. Use a token.")
    try:
        program = user_program(_resolved(access, plugin.command), project)
        output = await _run((program, *(plugin.args or ())), _environment(access, plugin, project), name, seconds)
    except ProgramRefused as error:
        hint = f" {clip_escaped(plugin.install_hint, 300)}" if plugin.install_hint else ""
        raise KubeconfigError(f"{name} cannot be run: {error}{hint}") from None
    except OSError as error:
        raise KubeconfigError(f"{name} cannot be run: {error.strerror or error}.") from None
    try:
        made = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KubeconfigError(f"{name} did not print an ExecCredential in JSON.") from None
    status = made.status
    if made.api_version != plugin.api_version or made.kind != "ExecCredential" or status is None:
        raise KubeconfigError(f"{name} did not print an ExecCredential of the version {plugin.api_version}.")
    if not status.token and not (status.certificate and status.key):
        raise KubeconfigError(f"{name} printed neither a token nor a client certificate with its key.")
    return status


def _resolved(access: Access, command: str) -> str:
    """A relative path starts at the kubeconfig, a plain name is looked up on PATH, both as kubectl does it."""
    return str(access.folder / command) if os.sep in command else command


def _environment(access: Access, plugin: ExecPlugin, project: Path) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.wants_cluster:
        cluster = access.cluster
        named = {
            "server": cluster.server,
            "tls-server-name": cluster.server_name,
            "insecure-skip-tls-verify": cluster.insecure or None,
            "certificate-authority-data": cluster.ca_data,
            "proxy-url": cluster.proxy_url,
        }
        spec["cluster"] = {name: value for name, value in named.items() if value is not None}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    given = {variable.name: variable.value for variable in plugin.env or ()}
    return {**user_environment(project), **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


async def _run(argv: tuple[str, ...], env: dict[str, str], name: str, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await start_async(
        argv, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            output, said = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise KubeconfigError(f"{name} did not end within {seconds:g} seconds.") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it started
        await process.wait()
    if code != 0:
        # What it prints is for the person who configured it, and can contain credentials: only its last line is shown.
        line = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        told = f": {clip_escaped(line, 300)}" if line else ""
        raise KubeconfigError(f"{name} failed with exit code {code}{told}")
    if len(output) > _MAX_OUTPUT:
        raise KubeconfigError(f"{name} printed more than {_MAX_OUTPUT // 1024} KB.")
    return output


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, and keep one byte more than is allowed."""
    kept = bytearray()
    while block := await stream.read(65_536):
        kept += block[: _MAX_OUTPUT + 1 - len(kept)]
    return bytes(kept)


def _quoted(text: str) -> str:
    return f"'{clip_escaped(text, 120)}'"
