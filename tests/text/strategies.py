"""Strategies for text, without hypothesis's character table, which is slow to build the first time."""

from __future__ import annotations

from hypothesis import strategies as st

TRICKS = (
    "\u202e\u2066\u2069\u200b\u200d\ufeff\U000e0020\U000e0100\U0001d173\x1b\x9b\x00\r\n\t\b\x07\x7f\xa0\u3000\xad\ud800"
    "\u2028\u0301\u0302\u034f\ue000\ufe0f\u3164"
)
ANY_CHAR = st.integers(0, 0x10FFFF).map(chr)
"""Every code point, including lone surrogates."""
ANY_TEXT = st.text(ANY_CHAR, max_size=20) | st.text(st.sampled_from(f"aé東🙂 ‹›\\x1b\"'=,{{}}↵×…{TRICKS}"), max_size=30)
PLAIN_TEXT = st.text(st.integers(0x20, 0x7E).map(chr))
