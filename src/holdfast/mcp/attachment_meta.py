"""What two holdfasts tell each other about an attachment where MCP has no field for it."""

from __future__ import annotations

from typing import Final

ATTACHMENT: Final = "holdfast/attachment"
"""In `_meta` of a content block: kind, name and URI, and the digest and size of content."""
OWN_URI: Final = "holdfast:"
"""The start of the address of an attachment that has none of its own."""
