"""What the conformance suite starts for a scenario: hands it to the test at a socket, and waits until it is done."""

from __future__ import annotations

import json
import os
import socket
import sys


def main(path: str, url: str) -> int:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        link.sendall(json.dumps({"url": url, "context": context}).encode() + b"\n")
        while part := link.recv(65_536):
            os.write(1, part)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
