"""Limits on the attachments of one result, and references that a tool made up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast import Attachment, Result, fail, ok
from holdfast.config.config import OutputConfig
from holdfast.runtime.results import limit_attachments

LIMITS = OutputConfig(max_attachments=2, max_attachment_bytes=10)


def item(data: bytes, name: str = "a\x1b.bin") -> Attachment:
    return Attachment(kind="file", mime_type="a/b", data=data, name=name)


@pytest.mark.spec("T10f")
def test_too_many_attachments_are_left_out_with_a_sentence() -> None:
    given = tuple(item(bytes([number])) for number in range(12))
    result = limit_attachments(ok("done", attachments=given), LIMITS)
    assert result.attachments == given[:2]
    assert result.output.startswith('done\n\n[Not attached: file "a‹\\x1b›.bin" (a/b, 1B), ')
    assert result.output.endswith(" and 2 more. A result has at most 2 attachments and 10B in total.]")


@pytest.mark.spec("T10f")
def test_attachments_that_are_too_large_together_are_left_out_and_smaller_ones_stay() -> None:
    result = limit_attachments(ok(attachments=(item(b"x" * 8), item(b"y" * 8), item(b"zz"))), LIMITS)
    assert [one.data for one in result.attachments] == [b"x" * 8, b"zz"]
    failed = limit_attachments(replace(fail("no"), attachments=(item(b"x" * 11),)), LIMITS)
    assert failed.attachments == () and (failed.error or "").startswith("no\n\n[Not attached: ")


@pytest.mark.spec("T10f")
def test_a_tool_cannot_name_stored_content() -> None:
    forged = Attachment(kind="file", mime_type="a/b", digest="0" * 64, size=7, uri="https://example.com")
    [kept] = limit_attachments(Result(True, attachments=(forged,)), LIMITS).attachments
    assert (kept.digest, kept.size, kept.uri) == ("", 0, "https://example.com")
