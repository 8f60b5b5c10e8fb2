"""Real S3 servers on loopback: the gateway of JuiceFS, which is MinIO's own S3 code, and SeaweedFS."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from holdfast.tools.storage.signature import Credentials, encode_path, encode_query, signed_headers

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-key-0123456789"
REGION = "us-east-1"
NAMES = ("juicefs", "seaweedfs")
START_SECONDS = 60.0
_BIN = Path(sys.executable).parent
_numbers = count()


def free_ports(number: int) -> list[int]:
    """Ports of loopback that nobody uses, all at once so that they differ."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass
class S3Server:
    """A running server, with requests of its owner that share no code with the client under test but the signature."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: bytes = b"", query: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, dict[str, str], bytes]:
        path = encode_path(path)
        who = Credentials(ACCESS_KEY, SECRET_KEY, REGION)
        digest = sha256(body).hexdigest()
        signed = signed_headers(method, self.entry, path, query, {}, digest, who, datetime.now(UTC))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"{path}?{encode_query(query)}" if query else path, body, signed)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def bucket(self) -> str:
        """Make a bucket that no other test uses."""
        name = f"bucket-{os.getpid()}-{next(_numbers)}"
        status, _, told = self.ask("PUT", f"/{name}")
        assert status == 200, told
        return name

    def put(self, bucket: str, key: str, body: bytes | str = b"") -> None:
        data = body.encode() if isinstance(body, str) else body
        status, _, told = self.ask("PUT", f"/{bucket}/{key}", data)
        assert status == 200, told

    def get(self, bucket: str, key: str) -> bytes | None:
        status, _, body = self.ask("GET", f"/{bucket}/{key}")
        return body if status == 200 else None

    def delete(self, bucket: str, key: str) -> None:
        assert self.ask("DELETE", f"/{bucket}/{key}")[0] == 204

    def keys(self, bucket: str) -> list[str]:
        status, _, body = self.ask("GET", f"/{bucket}", query=[("list-type", "2"), ("encoding-type", "url")])
        assert status == 200, body
        return [unquote_plus(found) for found in re.findall(r"<Key>([^<]*)</Key>", body.decode())]


def _juicefs(folder: Path, ports: list[int]) -> tuple[list[str], dict[str, str]]:
    meta = f"sqlite3://{folder / 'meta.db'}"
    done = subprocess.run(
        [str(_BIN / "juicefs"), "format", "--storage", "file", "--bucket", str(folder / "data"), meta, "volume"],
        check=False,
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    options = ["--multi-buckets", "--no-usage-report", "--no-bgjob", "--keep-etag", "--object-meta", "--no-banner"]
    places = ["--cache-dir", str(folder / "cache"), "--log", str(folder / "gateway.log")]
    argv = [str(_BIN / "juicefs"), "gateway", *options, *places, meta, f"127.0.0.1:{ports[0]}"]
    return argv, {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}


def _seaweedfs(folder: Path, ports: list[int]) -> tuple[list[str], dict[str, str]]:
    names = (
        "s3",
        "s3.port.grpc",
        "master",
        "master.port.grpc",
        "volume",
        "volume.port.grpc",
        "filer",
        "filer.port.grpc",
    )
    flags = {name if "." in name else f"{name}.port": port for name, port in zip(names, ports, strict=True)}
    argv = [str(_BIN / "weed"), "server", "-s3", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    argv += [f"-{name}={port}" for name, port in flags.items()]
    argv += ["-master.telemetry=false", "-volume.max=2000", "-master.volumeSizeLimitMB=64", "-s3.port.iceberg=0"]
    argv += [f"-filer.localSocket={folder / 'filer.sock'}", "-s3.port.lance=0"]
    # Each bucket has volumes of its own: one, not seven, or a test run would need thousands.
    growth = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
    return argv, {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, **growth}


@contextmanager
def serving(name: str, folder: Path) -> Generator[S3Server]:
    """Run a server until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = free_ports(8)
    argv, more = (_juicefs if name == "juicefs" else _seaweedfs)(folder, ports)
    log = folder / "output.log"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **more}
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, cwd=folder, env=environment)
    server = S3Server(name, ports[0], process, log)
    try:
        _wait_until_ready(server)
        yield server
    finally:
        process.kill()
        process.wait(START_SECONDS)


def _wait_until_ready(server: S3Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    told: Any = None
    while time.monotonic() < deadline and server.process.poll() is None:
        with suppress(OSError, http.client.HTTPException):
            status, _, told = server.ask("PUT", "/ready-bucket")
            if status in (200, 409):
                server.put("ready-bucket", "ready", b"x")
                return
        time.sleep(0.05)
    raise AssertionError(f"{server.name} did not start: {told}\n{server.log.read_text()[-2000:]}")
