"""The style of proposals, diffs and results: readable in light and dark, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

CSS = (files("holdfast.serve") / "static" / "parts.css").read_text()
COLOUR = re.compile(r"--([a-z-]+): (#[0-9a-f]{6});")
PAIRS = (
    *((text, ground) for text in ("fg", "muted", "accent") for ground in ("bg", "panel")),
    *((text, ground) for text in ("fg", "muted") for ground in ("add", "del")),
    *((f"risk-{risk}", "bg") for risk in ("low", "medium", "high")),
    ("fg", "add-word"), ("fg", "del-word"), ("add-fg", "bg"), ("del-fg", "bg"), ("esc-fg", "esc-bg"),
    ("warn-fg", "warn-bg"),
)  # fmt: skip


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_is_readable_on_its_background(text: str, ground: str, scheme: str) -> None:
    light, _, dark = CSS.partition("prefers-color-scheme: dark")
    colours = dict(COLOUR.findall(light if scheme == "light" else dark))
    assert contrast(colours[text], colours[ground]) >= 4.5


def test_both_schemes_define_the_same_colours() -> None:
    light, _, dark = CSS.partition("prefers-color-scheme: dark")
    assert {name for name, _ in COLOUR.findall(light)} == {name for name, _ in COLOUR.findall(dark)}


def test_every_colour_that_is_used_is_defined() -> None:
    assert set(re.findall(r"var\(--([a-z-]+)\)", CSS)) <= {name for name, _ in COLOUR.findall(CSS)} | {"number"}


def test_nothing_is_loaded() -> None:
    assert not re.search(r"url\(|@import|@font-face|expression|javascript", CSS)


def test_braces_are_balanced() -> None:
    assert CSS.count("{") == CSS.count("}")
