"""`PageControl`: performs operations on the page of a session: opens, reads, and acts on elements."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import structs
from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from holdfast.net.proxy import PROXY_ANSWER
from holdfast.text.escape import escape, escape_url
from holdfast.tools.browser.page_guard import VIEWPORT, NotPossible, PageGuard, PageNotLoaded, short_error
from holdfast.tools.browser.protocol import (
    MAX_URL,
    Act,
    Back,
    Launch,
    Locate,
    Located,
    Navigate,
    PageEvent,
    PageView,
    Read,
    Reply,
    Screenshot,
    Target,
    Wait,
)
from holdfast.tools.browser.snapshot import (
    EDITABLE,
    Element,
    closest_elements,
    describe,
    find_elements,
    hide_value,
    number_references,
    parse_snapshot,
    quote,
    quote_name,
    render,
    walk,
)

if TYPE_CHECKING:
    from playwright.async_api import Browser, ElementHandle, Page, Response

T = TypeVar("T")

MAX_LINES: Final = 20_000
MAX_TITLE: Final = 500
MAX_FRAMES: Final = 100
MAX_FIELDS: Final = 300
"""Fields whose values are shown."""
MAX_SNAPSHOT: Final = 16 * 1024 * 1024
MAX_IMAGE: Final = 4 * 1024 * 1024
MAX_HEIGHT: Final = 8000
"""Pixels of a screenshot of the whole page."""
_POLL: Final = 0.05
_INTERRUPTED: Final = "is interrupted by another navigation to"
_RETRIES: Final = 3
_FIELD_SECONDS: Final = 2.0
_TYPED_MARK: Final = "data-holdfast-secret"
_HIDDEN_FIELDS: Final = f"input[type=password], [{_TYPED_MARK}]"
_HIDE_REFUSED_FRAMES: Final = """() => {
  for (const frame of document.querySelectorAll('iframe, frame'))
    if (!/^(https?|about|data|blob|javascript):/.test(frame.src || 'about:')) frame.style.display = 'none';
}"""
_FACTS: Final = """element => {
  const facts = of => [of.tagName.toLowerCase(), (of.getAttribute('type') || '').toLowerCase()];
  const label = element.closest('label');
  // A click on what is inside a button, or on a label, is a click on the button.
  const control = element.closest('button, input') || (label && label.control) || element;
  const form = control.form || element.closest('form');
  const [tag, type] = facts(control);
  const submits = !!form && ((tag === 'button' && !['button', 'reset'].includes(type))
    || (tag === 'input' && (type === 'submit' || type === 'image')));
  const [own, kind] = facts(element);
  return {field_type: own === 'input' ? kind || 'text' : own,
    autocomplete: (element.getAttribute('autocomplete') || '').toLowerCase().slice(0, 100), submits,
    sends: !!form && (form.getAttribute('method') || '').toLowerCase() === 'post'};
}"""


class StalePage(Exception):
    """The page has changed since the element was located."""


class References:
    """Numbers the elements of a session, so that a reference never means an element of another page."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str, str, str], str] = {}
        self._own: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        """What each reference meant, for messages about stale ones."""
        self._next = 1

    def number(self, document: int, element: Element) -> str:
        key = (document, element.ref, element.role, element.label)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = f"e{self._next}"
            self._seen[found] = describe(element)
            self._next += 1
        self._own[found] = element.ref
        return found

    def start_page(self) -> None:
        """Forget which references can be used: those of the coming snapshot."""
        self._own.clear()
        if len(self._numbers) > 4 * MAX_LINES:
            self._numbers.clear()
            self._seen.clear()

    def selector(self, ref: str) -> str | None:
        own = self._own.get(ref)
        return None if own is None else f"aria-ref={own}"

    def meaning(self, ref: str) -> str | None:
        return self._seen.get(ref)


class PageControl:
    """Performs the operations of one session on its page."""

    def __init__(self, browser: Browser, launch: Launch) -> None:
        self._browser = browser
        self._launch = launch
        self._guard = PageGuard(browser, launch)
        self._status: int | None = None
        self._references = References()
        self._typed_secrets: set[str] = set()
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        await self._guard.open()

    def take_events(self) -> tuple[PageEvent, ...]:
        return self._guard.take_events()

    async def perform(self, request_id: int, operation: Any, hosts: tuple[str, ...], asked: tuple[str, ...]) -> Reply:
        async with self._lock:
            self._guard.begin(hosts, asked)
            await self._guard.ensure_page()
            perform: dict[type[Any], Callable[[Any], Awaitable[Reply]]] = {
                Navigate: self._navigate,
                Back: self._back,
                Read: self._read,
                Locate: self._locate,
                Act: self._act,
                Wait: self._wait,
                Screenshot: self._screenshot,
            }
            try:
                reply = await perform[type(operation)](operation)
            except StalePage as error:
                reply = Reply(id=0, error=str(error), stale=True)
            except NotPossible as error:
                reply = Reply(id=0, error=str(error))
            except TimeoutError:
                reply = Reply(id=0, error=await self._guard.replace_hung_page())
            guard = self._guard
            return structs.replace(reply, id=request_id, events=guard.take_events(), downloads=guard.take_downloads())

    async def _navigate(self, operation: Navigate) -> Reply:
        page = self._guard.current()
        try:
            response = await self._goto(page, operation.url)
            self._status = None if response is None else response.status
            if response is not None and (failure := await self._proxy_failure(response)) is not None:
                return Reply(id=0, error=f"{escape_url(operation.url)} cannot be opened: {failure}")
            await self._guard.wait_until_parsed()
        except (PlaywrightTimeout, PageNotLoaded):
            await self._guard.stop_loading()
            seconds = self._launch.navigation_seconds
            return Reply(id=0, error=f"{escape_url(operation.url)} did not load within {seconds:g} s.")
        except Error as error:
            if "Download is starting" in error.message:
                await self._guard.finish_work()
                return Reply(id=0, page=await self._view())
            if self._browser.is_connected() and not page.is_closed():
                return Reply(id=0, error=f"{escape_url(operation.url)} cannot be opened: {_network_error(error)}")
            raise
        await self._guard.settle()
        return Reply(id=0, page=await self._view())

    async def _goto(self, page: Page, url: str) -> Response | None:
        timeout = self._launch.navigation_seconds * 1000
        for _ in range(_RETRIES):
            try:
                return await page.goto(url, wait_until="commit", timeout=timeout)
            except Error as error:
                # The error page of an earlier navigation that was refused may load only now.
                if not any(f'{_INTERRUPTED} "{other}' in error.message for other in ("chrome-error:", url)):
                    raise
                await self._guard.settle()
        return await page.goto(url, wait_until="commit", timeout=timeout)

    async def _proxy_failure(self, response: Response) -> str | None:
        """Return what the proxy said, if it answered in place of the server, as it does for plain http."""
        # The proxy takes such a field out of what http servers send. What https servers send, it does not see.
        if not response.url.startswith("http:") or PROXY_ANSWER.lower() not in response.headers:
            return None
        return escape((await self._bounded(response.text())).strip()[:1000])

    async def _back(self, operation: Back) -> Reply:
        page = self._guard.current()
        before = self._guard.document
        with contextlib.suppress(PlaywrightTimeout):
            await page.go_back(wait_until="domcontentloaded", timeout=self._launch.navigation_seconds * 1000)
        await self._guard.settle()
        if page.url == "about:blank":  # what the browser started with
            with contextlib.suppress(PlaywrightTimeout):
                await page.go_forward(wait_until="domcontentloaded", timeout=self._launch.navigation_seconds * 1000)
            await self._guard.settle()
            raise NotPossible("There is no earlier page to go back to.")
        if self._guard.document == before:
            raise NotPossible("There is no earlier page to go back to.")
        return Reply(id=0, page=await self._view())

    async def _read(self, operation: Read) -> Reply:
        if operation.plain:
            return Reply(id=0, page=await self._plain_text(operation.target))
        view, root = await self._snapshot()
        if operation.target is None:
            return Reply(id=0, page=view)
        element = self._find(root, operation.target)
        lines = _whole_lines(element)
        return Reply(id=0, page=structs.replace(view, lines=tuple(lines[:MAX_LINES]), omitted=len(lines[MAX_LINES:])))

    async def _locate(self, operation: Locate) -> Reply:
        view, root = await self._snapshot()
        element = self._find(root, operation.target)
        return Reply(id=0, located=await self._located(view, element, await self._handle(element)))

    async def _act(self, operation: Act) -> Reply:
        seen = operation.element
        view, root = await self._snapshot()
        if (view.url, view.document) != (seen.url, seen.document):
            raise StalePage(f"The page has changed since: it is {escape_url(view.url)} now. Nothing was done.")
        element = next((found for found in walk(root) if found.ref == seen.ref), None)
        handle = None if element is None else await self._handle(element)
        now = None if element is None or handle is None else await self._located(view, element, handle)
        if handle is None or now != seen:
            raise StalePage(f"{seen.description} has changed or is gone. Nothing was done. {self._closest(root, seen)}")
        limit = self._launch.action_seconds * 1000
        try:
            if operation.kind == "click":
                await handle.click(timeout=limit)
            elif operation.kind == "select":
                await self._select(handle, operation.values, limit)
            else:
                if operation.secrets:
                    self._typed_secrets.update(filter(None, operation.secrets))
                    await handle.evaluate(f"element => element.setAttribute('{_TYPED_MARK}', '')")
                await handle.fill(operation.text, timeout=limit)
                if operation.submit:
                    await handle.press("Enter", timeout=limit, no_wait_after=True)
        except PlaywrightTimeout as error:
            await asyncio.wait_for(self._guard.current().evaluate("1"), _FIELD_SECONDS)  # raises if the page hangs
            raise NotPossible(f"{seen.description} did not accept the {operation.kind}: {_call_log(error)}") from None
        except Error as error:
            if not self._browser.is_connected():
                raise
            if self._guard.current_or_none() is None:
                return Reply(id=0, error=f"The page was closed during the {operation.kind}.")
            raise NotPossible(f"{seen.description}: {short_error(error)}") from None
        await self._guard.settle()
        await self._guard.follow_window()
        return Reply(id=0, page=await self._view())

    async def _select(self, handle: ElementHandle, values: tuple[str, ...], limit: float) -> None:
        options: list[dict[str, str]] = await handle.evaluate(
            "element => Array.from(element.options || []).slice(0, 5000)"
            ".map(option => ({label: option.label.trim(), value: option.value}))"
        )
        if not options:
            raise NotPossible("It is not a selection list. Click it, and then the option.")
        chosen: list[str] = []
        for value in values:
            found = next((item for item in options if value.strip() in (item["label"], item["value"])), None)
            if found is None:
                known = ", ".join(quote_name(item["label"], 60) for item in options[:20])
                raise NotPossible(f"There is no option {quote_name(value, 60)}. Options: {known}.")
            chosen.append(found["value"])
        await handle.select_option(chosen, timeout=limit)

    async def _wait(self, operation: Wait) -> Reply:
        """Wait until a text appears, or is gone, or the time is over."""
        page = self._guard.current()
        ends = time.monotonic() + operation.seconds
        wanted, unwanted = operation.text, operation.gone
        while True:
            if wanted is None and unwanted is None:
                await asyncio.sleep(max(0.0, ends - time.monotonic()))
                break
            text = " ".join(
                (await self._bounded(page.evaluate("() => document.body ? document.body.innerText : ''"))).split()
            )
            if (wanted is None or wanted in text) and (unwanted is None or unwanted not in text):
                break
            if time.monotonic() >= ends:
                what = (
                    f"{quote_name(wanted)} did not appear"
                    if wanted is not None
                    else f"{quote_name(unwanted or '')} is still there"
                )
                view = await self._view()
                return Reply(id=0, error=f"{what} within {operation.seconds:g} s.", page=view)
            await asyncio.sleep(_POLL)
            page = self._guard.current()
        await self._guard.settle()
        return Reply(id=0, page=await self._view())

    async def _screenshot(self, operation: Screenshot) -> Reply:
        page = self._guard.current()
        view, root = await self._snapshot()
        options: dict[str, Any] = {
            "mask": [frame.locator(_HIDDEN_FIELDS) for frame in page.frames],
            "timeout": self._launch.action_seconds * 1000,
            "animations": "disabled",
        }
        source: Any = page
        if operation.target is not None:
            source = page.locator(cast(str, self._references.selector(self._find(root, operation.target).ref)))
        elif operation.full_page:
            height = await self._bounded(page.evaluate("() => Math.ceil(document.documentElement.scrollHeight)"))
            if height > MAX_HEIGHT:
                self._guard.note(
                    "browser", f"The page is {height:,} pixels high; the screenshot ends at {MAX_HEIGHT:,}."
                )
            clipped = {"x": 0, "y": 0, "width": VIEWPORT["width"], "height": min(int(height), MAX_HEIGHT)}
            options |= {"full_page": True, "clip": clipped}
        image = await self._bounded(source.screenshot(**options))
        if len(image) <= MAX_IMAGE:
            return Reply(id=0, page=view, image=image)
        image = await self._bounded(source.screenshot(**options, type="jpeg", quality=60))
        return Reply(id=0, page=view, image=image, mime_type="image/jpeg")

    async def _view(self) -> PageView:
        return (await self._snapshot())[0]

    async def _snapshot(self) -> tuple[PageView, Element]:
        page = self._guard.current()
        seconds = self._launch.action_seconds
        await self._hide_dead_frames(page)
        source = ""
        if await self._bounded(page.evaluate("() => document.body !== null")):  # a page can be without, and none comes
            # Less than the limit of `_bounded`, because then a frame that does not answer is only left out.
            source = await self._bounded(page.aria_snapshot(mode="ai", timeout=seconds * 800))
        if len(source) > MAX_SNAPSHOT:
            self._guard.note(
                "browser", f"The snapshot of the page is {len(source):,} characters long; the end is left out."
            )
            source = source[:MAX_SNAPSHOT]
        root = parse_snapshot(source)
        self._references.start_page()
        number_references(root, lambda element: self._references.number(self._guard.document, element))
        await self._hide_secrets(root)
        lines = render(root)
        view = PageView(
            url=page.url[:MAX_URL],
            title=(await self._bounded(page.title()))[:MAX_TITLE],
            status=self._status,
            document=self._guard.document,
            lines=tuple(lines[:MAX_LINES]),
            omitted=len(lines[MAX_LINES:]),
        )
        return view, root

    async def _hide_dead_frames(self, page: Page) -> None:
        """Take frames that Chromium refused to load (`file:`) out of the snapshot, which would wait for them."""
        parents = {frame.parent_frame for frame in page.frames[1:] if not frame.url and frame.parent_frame is not None}
        for parent in list(parents)[:MAX_FRAMES]:
            with contextlib.suppress(Error):
                await self._bounded(parent.evaluate(_HIDE_REFUSED_FRAMES))

    async def _hide_secrets(self, root: Element) -> None:
        """Hide the values of password fields and of fields that got a secret, and of those that cannot be judged."""
        fields = [element for element in walk(root) if element.role in EDITABLE and element.text]
        judged = await asyncio.gather(*(self._is_secret(element) for element in fields[:MAX_FIELDS]))
        for element, secret in zip_longest(fields, judged, fillvalue=True):
            if secret and isinstance(element, Element):
                hide_value(element)

    async def _is_secret(self, element: Element) -> bool:
        selector = self._references.selector(element.ref)
        # A page can replace the field, and with it our mark.
        if selector is None or any(secret in element.text for secret in self._typed_secrets):
            return True
        try:
            judging = (
                self._guard.current()
                .locator(selector)
                .evaluate("(element, hidden) => element.matches(hidden)", _HIDDEN_FIELDS)
            )
            return bool(await asyncio.wait_for(judging, _FIELD_SECONDS))
        except (Error, TimeoutError):
            return True

    async def _plain_text(self, target: Target | None) -> PageView:
        view, root = await self._snapshot()
        page = self._guard.current()
        where = "body"
        if target is not None:
            where = cast(str, self._references.selector(self._find(root, target).ref))
        text = await self._bounded(page.locator(where).inner_text(timeout=self._launch.action_seconds * 1000))
        lines = [quote(line, len(line)) for line in text.splitlines() if line.strip()]
        return structs.replace(view, lines=tuple(lines[:MAX_LINES]), omitted=len(lines[MAX_LINES:]))

    def _find(self, root: Element, target: Target) -> Element:
        if target.ref is not None:
            found = next((element for element in walk(root) if element.ref == target.ref), None)
            if found is not None:
                return found
            meant = self._references.meaning(target.ref)
            what = (
                f"{target.ref} ({meant}) is no longer on the page." if meant else f"There is no element {target.ref}."
            )
            raise StalePage(f"{what} {_suggest(closest_elements(root, meant or ''))}")
        matches = find_elements(root, target.role, target.name)
        wanted = " ".join(part for part in (target.role, quote_name(target.name) if target.name else None) if part)
        if not matches:
            words = f"{target.role or ''} {target.name or ''}"
            raise NotPossible(f"There is no {wanted} on the page. {_suggest(closest_elements(root, words))}")
        if len(matches) > 1:
            named = ", ".join(f"{element.ref} {describe(element)}" for element in matches[:5])
            more = f" and {len(matches) - 5} more" if len(matches) > 5 else ""
            raise NotPossible(f"{len(matches)} elements match {wanted}: {named}{more}. Choose one by its reference.")
        return matches[0]

    async def _handle(self, element: Element) -> ElementHandle:
        """Return the element itself, so that what is checked is what is acted on, whatever the page does meanwhile."""
        selector = self._references.selector(element.ref)
        if selector is None:
            raise NotPossible(f"{describe(element)} cannot be acted on.")
        return await self._bounded(self._guard.current().locator(selector).element_handle())

    async def _located(self, view: PageView, element: Element, handle: ElementHandle) -> Located:
        frame = await self._bounded(handle.owner_frame())
        if frame is None:
            raise StalePage(f"{describe(element)} is no longer on the page. Nothing was done.")
        facts: dict[str, Any] = await self._bounded(handle.evaluate(_FACTS))
        return Located(
            ref=element.ref,
            role=element.role,
            name=" ".join(element.label.split()) if element.role not in EDITABLE else element.name,
            url=view.url,
            document=view.document,
            frames=self._guard.frames_around(frame),
            link=element.url[:2000],
            description=describe(Element(role=element.role, name=element.name, clickable=element.clickable))
            if element.role in EDITABLE
            else describe(element),
            field_type=str(facts["field_type"])[:40],
            autocomplete=str(facts["autocomplete"]),
            submits=bool(facts["submits"]),
            sends=bool(facts["sends"]),
        )

    def _closest(self, root: Element, seen: Located) -> str:
        return _suggest(closest_elements(root, f"{seen.role} {seen.name}"))

    async def _bounded(self, work: Awaitable[T]) -> T:
        """Raise `TimeoutError` if the page does not answer. Playwright's own limits do not cover scripts."""
        try:
            return await asyncio.wait_for(work, self._launch.action_seconds)
        except PlaywrightTimeout:
            raise TimeoutError from None


def _whole_lines(element: Element) -> list[str]:
    """The lines of one element, with all options of a selection list."""
    if element.role != "combobox":
        return render(element)
    return [*render(element), *(f"  {line}" for child in element.children for line in render(child))]


def _suggest(elements: list[Element]) -> str:
    if not elements:
        return "The page has no elements to act on."
    return f"Closest: {', '.join(f'{element.ref} {describe(element)}' for element in elements)}."


def _call_log(error: PlaywrightTimeout) -> str:
    """Return why an action timed out: the last reason in Playwright's log."""
    reasons = ("intercepts pointer events", "not visible", "not enabled", "not stable", "not editable", "outside of")
    lines = [line.strip(" -") for line in str(error).splitlines()]
    found = next((line for line in reversed(lines) if any(reason in line for reason in reasons)), "")
    return (found or "it was not ready in time")[:300]


_NETWORK_ERRORS: Final = {
    "ERR_TOO_MANY_REDIRECTS": "it redirects too often.",
    "ERR_TUNNEL_CONNECTION_FAILED": "the connection was refused or failed.",
    "ERR_EMPTY_RESPONSE": "the server closed the connection without an answer.",
    "ERR_CERT_": "its certificate is not valid.",
    "ERR_INVALID_RESPONSE": "the answer is not valid HTTP.",
    "ERR_ABORTED": "the navigation was stopped.",
}


def _network_error(error: Error) -> str:
    text = short_error(error)
    return next((sentence for word, sentence in _NETWORK_ERRORS.items() if word in text), text.removesuffix(".") + ".")
