"""What the tests of logins share: a person with a browser, and requests that need a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import httpx2

from holdfast.config.config import McpOAuth, McpServer
from holdfast.contract.elicitation import Elicitation, ElicitationReply, UrlRequest
from holdfast.mcp.client.oauth import OAuthLogin, oauth_for
from holdfast.runtime.runtime import Runtime
from tests.attached import attached
from tests.mcp.client.authorization_server import Authority

T = TypeVar("T")
_KEPT: WeakKeyDictionary[OAuthLogin, Runtime] = WeakKeyDictionary()
"""A login does not keep its runtime alive."""


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


class Person:
    """Says yes and opens the page in a browser, unless told otherwise."""

    def __init__(self, action: Literal["accept", "decline", "cancel"] = "accept", *, browser: bool = True) -> None:
        self.action: Literal["accept", "decline", "cancel"] = action
        self.browser = browser
        self.asked: list[UrlRequest] = []
        self.pages: list[tuple[int, str]] = []

    async def __call__(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        (visit,) = elicitation.questions
        assert isinstance(visit, UrlRequest) and elicitation.asked_by == "mcp:docs"
        self.asked.append(visit)
        if self.action == "accept" and self.browser:
            await self.open(visit.url)
        return (ElicitationReply(action=self.action),)

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, verify=False) as browser:
            page = await browser.get(url)
            self.pages.append((page.status_code, page.text))


def server_of(there: Authority, given: McpOAuth | None = None) -> McpServer:
    return McpServer(url=f"{there.base}/mcp", oauth=given)


def login_of(
    there: Authority,
    person: Person | None,
    state: Path | None = None,
    *,
    runtime: Runtime | None = None,
    given: McpOAuth | None = None,
) -> OAuthLogin:
    runtime = runtime or attached(Runtime(), elicitor=person)
    login = oauth_for(runtime, "docs", server_of(there, given), state)
    _KEPT[login] = runtime
    return login


@asynccontextmanager
async def client_of(login: OAuthLogin) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(auth=login, timeout=50, verify=False) as client:
        yield client


async def ask(login: OAuthLogin, path: str = "/mcp", method: str = "POST") -> int:
    async with client_of(login) as client:
        base = login.context.server_url.removesuffix("/mcp")
        return (await client.request(method, f"{base}{path}")).status_code


def kept_in(state: Path) -> dict[str, Any]:
    (path,) = (state / "mcp" / "logins").iterdir()
    return json.loads(path.read_bytes())
