"""Starts llama.cpp's server with the weights in a file, on a free port of this machine, and prints its address."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    import xllamacpp  # pyright: ignore[reportMissingImports]

    llama: Any = xllamacpp
    parameters = llama.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.n_ctx = 16_384
    parameters.n_parallel = 1
    server = llama.Server(parameters)
    sys.stdout.write(f"listening {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
