"""Frames between the runtime and the process of the browser."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from holdfast.tools.browser.protocol import MAX_FRAME, Navigate, Request, Target, frame, read_frame


def test_a_message_survives_the_pipe_and_the_end_is_none() -> None:
    async def main() -> tuple[Request, bytes | None]:
        reader = asyncio.StreamReader()
        reader.feed_data(frame(Request(id=3, operation=Navigate("http://x/"), hosts=("x",))))
        reader.feed_eof()
        first = await read_frame(reader)
        assert first is not None
        return msgspec.msgpack.decode(first, type=Request), await read_frame(reader)

    assert asyncio.run(main()) == (Request(id=3, operation=Navigate("http://x/"), hosts=("x",)), None)


def test_frames_that_are_too_long_are_refused() -> None:
    async def main() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data((MAX_FRAME + 1).to_bytes(4, "big"))
        await read_frame(reader)

    with pytest.raises(ValueError, match="frame of"):
        asyncio.run(main())
    with pytest.raises(ValueError, match="message of"):
        frame(Target(name="x" * (MAX_FRAME + 1)))
