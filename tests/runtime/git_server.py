"""A git server on loopback that speaks smart HTTP, with git's own `http-backend`."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    named = {f"GIT_{role}_{part}": "ann" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    ran = subprocess.run(
        ("git", "-C", str(folder), *words),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **named},
    )
    return ran.stdout.strip()


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """The `host:port` of a server for all repositories in a folder, with push for anyone."""
    program = Path(git(folder, "--exec-path"), "git-http-backend")

    class Handler(BaseHTTPRequestHandler):
        def _backend(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_LENGTH": str(len(body)),
                "REMOTE_USER": "ann",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "REMOTE_ADDR": "127.0.0.1",
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH": os.environ["PATH"],
            }
            said = subprocess.run((str(program),), input=body, capture_output=True, env=told, timeout=60, check=True)
            head, _, rest = said.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(rest)

        do_GET = do_POST = _backend

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
