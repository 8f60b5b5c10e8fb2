"""The operator passes the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.contract.message import Message, Text
from holdfast.models.operator.operator import Operator
from holdfast.models.port import Model
from tests.models.conformance import ModelConformance
from tests.models.operator.conversations import TOOLS


@asynccontextmanager
async def _opened() -> AsyncGenerator[Model]:
    yield Operator()


class TestTalking(ModelConformance):
    tools = TOOLS

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _opened()


class TestCalling(TestTalking):
    conversation = (Message("user", (Text("read a.py and b.py"),)),)
