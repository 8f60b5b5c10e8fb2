"""MCP in both directions: servers as sources of tools (`client`), and holdfast as a server (`server`)."""

from __future__ import annotations

from typing import Final

ATTACHMENT: Final = "holdfast/attachment"
"""In `_meta` of a content block, for another holdfast: kind, name and URI, and the digest and size of content."""
OWN_URI: Final = "holdfast:"
"""The start of the address of an attachment that has none of its own."""
