"""Names of files that a model gives and a person opens: safe on every file system, and true about the type."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, normalize

from holdfast.tools.media.file_types import EXTENSIONS

MAX_CHARS: Final = 100
MAX_BYTES: Final = 200
"""Below the 255 bytes of common file systems, so that a program can add to the name."""
_FORBIDDEN: Final = re.compile(r'[<>:"|?*]')
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, bidi and other invisible characters, surrogates, and characters that no font has."""
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.I)
"""Names of devices on Windows, with any extension."""
_STEMS: Final = {"image": "image", "audio": "audio", "video": "video", "text": "text"}


def safe_name(given: str | None, mime: str) -> str:
    """Return a file name without folders, invisible characters and reserved names, that ends as its type does.

    An extension of another type stays in the name, but not at its end: `photo.exe` becomes `photo.exe.png`.
    """
    name = normalize("NFC", (given or "")[: 8 * MAX_CHARS]).replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = "".join(char for char in name if category(char) not in _UNSEEN)
    name = _FORBIDDEN.sub("_", re.sub(r"\s+", " ", name)).strip(". ").lstrip("-~ .")
    if not name:
        name = _STEMS.get(mime.partition("/")[0], "file")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    stem, dot, extension = name.rpartition(".")
    known = EXTENSIONS.get(mime, ())
    if not (dot and stem and 0 < len(extension) <= 8 and extension.isascii() and extension.isalnum()):
        stem, extension = name, ""
    if known and extension.lower() not in known:
        stem, extension = name, known[0]
    return f"{_shortened(stem, extension)}.{extension}" if extension else _shortened(stem, "")


def _shortened(stem: str, extension: str) -> str:
    most = MAX_BYTES - len(extension) - 1
    cut = stem[: MAX_CHARS - len(extension) - 1].encode()[:most].decode(errors="ignore")
    return cut.rstrip(". ") or "file"
