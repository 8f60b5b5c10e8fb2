"""Project trees for search tests: everything to be searched, and everything to be skipped."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

WORDS = [
    *("alpha", "beta", "gamma", "delta", "Config", "config", "Runtime", "parse_line", "value", "naïve", "日本", "x1"),
    *("needle", "hay", "stack", "return", "import", "class", "TODO", "fixme", "http://example.org", "a.b", "f(x)"),
]
STARTS = ["", "", "", "    ", "\t", "def ", "class ", "fn ", "pub fn ", "# ", "const ", "type "]
ENDINGS = ("py", "rs", "go", "md", "toml", "json", "txt", "c", "log", "unknown", "YAML")


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by path, creating folders."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def make_large_tree(root: Path, files: int, seed: int = 7) -> Path:
    """Create many small files in nested folders, including ignore files, hidden, binary, malformed and linked ones."""
    chance = random.Random(seed)
    pool = [_line(chance) for _ in range(400)]
    folders = [f"{top}/{middle}/d{low}" for top in _TOPS for middle in _MIDDLES for low in range(12)]
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    opened = [os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
    try:
        for number in range(files):
            name = f"{'.' if number % 97 == 0 else ''}f{number}.{chance.choice(ENDINGS)}"
            content = "".join(chance.choices(pool, k=chance.randint(1, 6))).encode()
            _put(opened[number % len(opened)], name, _odd(content, number))
    finally:
        for folder in opened:
            os.close(folder)
    return _with_rules(root)


_TOPS = ("src", "lib", "docs", "build", ".hidden")
_MIDDLES = ("core", "skip.me", "vendor", "keep", "t mp", "ünï")


def _line(chance: random.Random) -> str:
    words = " ".join(chance.choices(WORDS, k=chance.randint(1, 5)))
    return chance.choice(STARTS) + words + chance.choice(["\n", "\n", "\r\n"])


def _odd(content: bytes, number: int) -> bytes:
    """Make some files binary, invalid UTF-8, without a final newline, with a BOM, UTF-16, or empty."""
    if number % 31 == 0:
        return content + b"\0" + content
    if number % 37 == 0:
        return b"\xff\xfe latin \xe9 " + content
    if number % 41 == 0:
        return content.rstrip()
    if number % 43 == 0:
        return b"\xef\xbb\xbf" + content
    if number % 47 == 0:
        return content.decode().encode("utf-16")
    return b"" if number % 53 == 0 else content


def _put(folder: int, name: str, content: bytes) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
    os.write(opened, content)
    os.close(opened)


def _with_rules(root: Path) -> Path:
    write_tree(
        root,
        {
            ".gitignore": "*.log\n/build/\nskip.*/\n!skip.me/d1/\n**/d7/*.txt\n\\#x\nf1[0-4]*.md\n",
            "src/.gitignore": "!*.log\nd3\n*.c\n!f?.c\n",
            "lib/core/.gitignore": "*\n!*.py\n!d*/\n",
            "lib/.ignore": "vendor/\n!d5/keep\n",
            "docs/.rgignore": "*.json\n!.f*\n",
            ".git/info/exclude": "d9/\n*.unknown\n",
            ".git/config": "needle\n",
            "docs/keep/.git/info/exclude": "*.md\n",
            "src/big.py": "hay\n" * 70_000 + "def needle():\n    return hay\n",
            "src/late.bin": b"needle\n" + b"hay\n" * 70_000 + b"\0",
            "src/one line.py": "hay " * 200_000 + "needle",
            "src/new\nline: 1.py": "needle\nalpha\n",
            "src/-dash.py": "needle\n",
        },
    )
    (root / "src" / "link.py").symlink_to(root / "src" / "big.py")
    (root / "lib" / "linked").symlink_to(root / "src")
    (root / "docs" / "broken").symlink_to("nowhere")
    os.mkfifo(root / "docs" / "pipe.py")
    return root
