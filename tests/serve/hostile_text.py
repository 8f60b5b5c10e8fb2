"""Text that tries to become markup, or to hide on a page."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.text.strategies import ANY_TEXT

ATTACKS = (
    "<script>alert(1)</script>", "</script>", "</pre></div></details>", "<img src=x onerror=alert(1)>", "<!--", "-->",
    "<![CDATA[", "<?php", "&lt;", "&amp;lt;", "&#x3c;b&#62;", '" onmouseover="x', "' style='x", "javascript:alert(1)",
    "<svg/onload=alert(1)>", "<a href='javascript:x'>", "{{ 7*7 }}", "{% raw %}", "\x00<b>", "‹\\x1b›",
    "‹␠×9›", "‹", "›",
    "safe\rrm", "a\b\b\bb", "\u202ecod\u2066x\u2069", "\u200b" * 40, "\ud800", "e" + "\u0301" * 50, " " * 400,
    "\t" * 30, "\t\t", "\n" * 60, " \n" * 30, "x" * 500, "אבג 12", "%s{}%(x)s{0}",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(ATTACKS) | ANY_TEXT, max_size=6).map("".join)
