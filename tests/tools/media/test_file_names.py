"""File names of a model become names that are safe on every file system and true about the type."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.media.file_names import MAX_BYTES, MAX_CHARS, safe_name
from holdfast.tools.media.file_types import EXTENSIONS
from tests.text.strategies import ANY_TEXT


@pytest.mark.spec("B11c")
@pytest.mark.parametrize(
    ("name", "mime", "safe"),
    [
        ("cat.png", "image/png", "cat.png"),
        ("Katze im Haus.JPG", "image/jpeg", "Katze im Haus.JPG"),
        ("../../etc/passwd", "image/png", "passwd.png"),
        ("..\\..\\boot.ini", "image/png", "boot.ini.png"),
        ("/etc/cron.d/x.png", "image/png", "x.png"),
        ("invoice.exe", "image/png", "invoice.exe.png"),
        ("photo\u202egnp.exe", "image/png", "photognp.exe.png"),
        ("a\x1b[31m\nb\x00.png", "image/png", "a[31mb.png"),
        (".bashrc", "image/png", "bashrc.png"),
        ("-rf", "application/octet-stream", "rf"),
        ("CON", "application/octet-stream", "_CON"),
        ("nul.png", "image/png", "_nul.png"),
        ("com1.txt", "text/plain", "_com1.txt"),
        ('a<b>:"c|d?*.png', "image/png", "a_b___c_d__.png"),
        ("...", "audio/ogg", "audio.ogg"),
        ("", "image/gif", "image.gif"),
        (None, "application/zip", "file"),
        ("x" * 500 + ".png", "image/png", "x" * 96 + ".png"),
    ],
)
def test_a_file_name_is_safe_and_fits_its_type(name: str | None, mime: str, safe: str) -> None:
    assert safe_name(name, mime) == safe


MIMES = st.sampled_from([*EXTENSIONS, "application/octet-stream", "text/html"])


@pytest.mark.spec("B11c")
@given(ANY_TEXT, MIMES)
def test_no_name_leaves_its_folder_or_hides_its_end(name: str, mime: str) -> None:
    safe = safe_name(name, mime)
    assert safe and len(safe) <= MAX_CHARS and len(safe.encode()) <= MAX_BYTES
    assert not set(safe) & set('/\\<>:"|?*')
    assert not any(category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for char in safe)
    assert not safe.startswith((".", "-", " ", "~")) and not safe.endswith((".", " "))
    if mime in EXTENSIONS:
        assert safe.rpartition(".")[2].lower() in EXTENSIONS[mime]
    assert safe_name(safe, mime) == safe
