"""`browser.click`, `browser.type` and `browser.select`: propose an action on a named element, and do it if the page and
the element are still the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, cast
from urllib.parse import urljoin

import msgspec

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import ACTS_ON_STATE, Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, digest_of
from holdfast.contract.result import Result, fail
from holdfast.net.hosts import AllowList, split_port
from holdfast.text.escape import escape, escape_url
from holdfast.text.preview import with_label
from holdfast.tools.browser import chromium
from holdfast.tools.browser.navigation import TIMEOUT
from holdfast.tools.browser.protocol import Act, Locate, Located, Target
from holdfast.tools.browser.report import OUTPUT, changes_since, page_result
from holdfast.tools.browser.service import INHERITING, BrowserError, Browsers, origin_of, session_of
from holdfast.tools.browser.snapshot import quote_name
from holdfast.tools.schemas import LABEL, Schema, array, builtin_tool, nullable, strict_object, text

Kind = Literal["click", "type", "select"]

ELEMENT: Final[dict[str, Schema]] = {
    "ref": nullable("string", "The reference of the element, such as e12.", pattern="^e[0-9]{1,9}$"),
    "role": nullable("string", "In place of ref: the role of the element, such as button, link or textbox."),
    "name": nullable("string", "In place of ref: the name of the element, or its visible text."),
}
_SECRET: Final = re.compile(r"\$\{secret:([^{}]+)\}")
_MAX_SHOWN: Final = 500
_VALUES_SHOWN: Final = 20
"""How much of a text and how many values a summary shows; the preview shows all of it."""
_SENSITIVE: Final = frozenset({"current-password", "new-password", "one-time-code"})


def target_of(args: Args) -> Target | None:
    """The element that the arguments name, or None."""
    ref, role, name = (cast(str | None, args.get(key)) for key in ("ref", "role", "name"))
    return None if ref is None and role is None and name is None else Target(ref=ref, role=role, name=name)


def preview_target(args: Args) -> str:
    parts = (args.get("ref"), args.get("role"), quote_name(str(args["name"])) if args.get("name") else None)
    return " ".join(str(part) for part in parts if part)


def _referenced_secrets(args: Args) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_SECRET.findall(str(args.get("text") or ""))))


def _is_sensitive(located: Located) -> bool:
    """Whether a field is for a password, a one-time code or a payment card, by its type and `autocomplete`."""
    words = located.autocomplete.split()
    return located.field_type == "password" or any(word in _SENSITIVE or word.startswith("cc-") for word in words)


async def _propose(kind: Kind, args: Args, ctx: Context) -> Proposal | Result:
    target = target_of(args)
    if target is None:
        return fail("Name the element: by ref, or by role and name.")
    try:
        answer = await session_of(ctx).perform(Locate(target))
        located = cast(Located, answer.reply.located)
        secrets = _referenced_secrets(args)
        for scope in secrets:
            _check_secret_hosts(scope, located, ctx)
    except BrowserError as error:
        return fail(str(error))
    submit = bool(args.get("submit"))
    sensitive = _is_sensitive(located)
    sends = (kind == "click" and located.submits) or submit
    what = _describe(kind, args, located)
    link = f"\nThe link leads to {escape_url(_joined(located))}" if located.link else ""
    frames = "".join(f"\nin the frame {escape_url(frame.url)}" for frame in located.frames)
    form = "\nThis submits a form." if sends else ""
    element = cast(Args, msgspec.json.decode(msgspec.json.encode(located)))
    return Proposal(
        tool_name=f"browser.{kind}",
        summary=f"{_describe(kind, args, located, _MAX_SHOWN)} {_place(located)}",
        risk=Risk.HIGH if sends or secrets or (sensitive and kind == "type") else Risk.MEDIUM,
        payload={"element": element, **_payload(kind, args)},
        preview=f"{what}{frames}\non {escape_url(located.url)}{link}{form}",
        preconditions=(Precondition(kind="element", subject=located.ref, value=digest_of(element)),),
    )


def _describe(kind: Kind, args: Args, located: Located, limit: int | None = None) -> str:
    """Say what is done. Everything that is typed or selected is shown: the person approves it, and a page that calls
    its field a password must not hide it. With `limit`, at most so many characters of it."""
    if kind == "click":
        return f"click {located.description}"
    if kind == "select":
        return f"select {_shown_values(args, limit)} in {located.description}"
    ending = " and submit" if args.get("submit") else ""
    text = cast(str, args["text"])
    return f"type {quote_name(text, limit or len(text))} into {located.description}{ending}"


def _payload(kind: Kind, args: Args) -> Args:
    if kind == "type":
        return {"text": args["text"], "submit": bool(args.get("submit"))}
    return {"values": args["values"]} if kind == "select" else {}


def _shown_values(args: Args, limit: int | None) -> str:
    values = cast(list[str], args["values"])
    shown = [quote_name(value, limit or len(value)) for value in values[: limit and _VALUES_SHOWN]]
    more = f" and {len(values) - len(shown)} more" if len(shown) < len(values) else ""
    return ", ".join(shown) + more


def _place(located: Located) -> str:
    """Return `on shop.example`, or `in a frame of ads.example on shop.example`."""
    page = _shown_host(located.url)
    hosts = dict.fromkeys(_shown_host(frame.url) for frame in located.frames if frame.url not in INHERITING)
    return "".join(f"in a frame of {host} " for host in hosts if host != page) + f"on {page}"


def _shown_host(url: str) -> str:
    origin = origin_of(url)
    return escape_url(url[:200]) if origin is None else origin.entry


def _joined(located: Located) -> str:
    """Return where a link leads: from the document that it is in."""
    base = next((frame.url for frame in located.frames if frame.url not in INHERITING), located.url)
    try:
        return urljoin(base, located.link)
    except ValueError:  # such as `http://[`
        return located.link


def _check_secret_hosts(scope: str, located: Located, ctx: Context) -> None:
    """Raise unless the configuration lets the secret be typed into the frame of the element, and into all around it:
    a page can replace its frames."""
    hosts = ctx.service(Browsers).settings.secret_hosts.get(scope, ())
    for url in (located.url, *(frame.url for frame in located.frames)):
        if url not in INHERITING:
            _check_secret_host(scope, hosts, url)


def _check_secret_host(scope: str, hosts: Sequence[str], url: str) -> None:
    origin = origin_of(url)
    refusal = f"The secret '{escape(scope)}' may not be typed into pages of {_shown_host(url)}"
    if origin is None:
        raise BrowserError(f"{refusal}.")
    is_http = origin.scheme == "http"
    # An entry without a port stands for https only: whoever is on the way can change a page that comes over http.
    usable = [entry for entry in hosts if not is_http or split_port(entry, None)[1] is not None]
    if not AllowList(usable, option=f"secrets.{scope}.hosts").allows(origin.host, origin.port):
        entry = origin.entry_with_port if is_http else origin.entry
        why = " It came over http, which is not encrypted." if is_http else ""
        raise BrowserError(
            f'{refusal}.{why} To allow it, add "{entry}" to hosts of [secrets.{escape(scope)}] in the user '
            "configuration."
        )


async def _apply(kind: Kind, payload: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    located = msgspec.convert(payload["element"], Located)
    given = str(payload.get("text", ""))
    try:
        scopes = _referenced_secrets(payload)
        for scope in scopes:
            _check_secret_hosts(scope, located, ctx)
        values = {scope: ctx.secret(scope) for scope in scopes}
        act = Act(
            kind=kind,
            element=located,
            text=_SECRET.sub(lambda found: values[found[1]], given),
            secrets=tuple(values.values()),
            submit=bool(payload.get("submit")),
            values=tuple(cast(list[str], payload.get("values") or [])),
        )
        answer = await session.perform(act)
    except BrowserError as error:
        return fail(str(error))
    except HoldfastError as error:
        return fail(f"Nothing was typed: {error}")
    verb = {"click": "Clicked", "type": "Typed into", "select": "Selected in"}[kind]
    shown = changes_since(session.shown, answer.page, ctx)
    return page_result(session, answer, shown, done=f"{verb} {located.description}.")


async def _propose_click(args: Args, ctx: Context) -> Proposal | Result:
    return await _propose("click", args, ctx)


async def _apply_click(payload: Args, ctx: Context) -> Result:
    return await _apply("click", payload, ctx)


async def _propose_type(args: Args, ctx: Context) -> Proposal | Result:
    return await _propose("type", args, ctx)


async def _apply_type(payload: Args, ctx: Context) -> Result:
    return await _apply("type", payload, ctx)


async def _propose_select(args: Args, ctx: Context) -> Proposal | Result:
    return await _propose("select", args, ctx)


async def _apply_select(payload: Args, ctx: Context) -> Result:
    return await _apply("select", payload, ctx)


def _preview_click(args: Args, width: int) -> str:
    return with_label(preview_target(args), args)


def _preview_type(args: Args, width: int) -> str:
    return with_label(f"«{args.get('text', '')}» into {preview_target(args)}", args)


def _preview_select(args: Args, width: int) -> str:
    values = cast(list[str], args.get("values") or [])
    return with_label(f"{', '.join(f'«{value}»' for value in values)} in {preview_target(args)}", args)


BROWSER_CLICK: Final = builtin_tool(
    name="browser.click",
    description="Click an element of the open page. Returns what changed.",
    input_schema=strict_object(**ELEMENT, label=LABEL),
    output_schema=OUTPUT,
    propose=_propose_click,
    apply=_apply_click,
    timeout=TIMEOUT,
    risk=Risk.MEDIUM,
    effects=frozenset({"network", "external"}),
    capabilities=frozenset({ACTS_ON_STATE}),
    sources=("web",),
    sinks=("web",),
    format_preview=_preview_click,
    groups=("browser", "web"),
    profiles=("coding",),
    unavailable=chromium.missing,
)
BROWSER_TYPE: Final = builtin_tool(
    name="browser.type",
    description="Type a text into a field of the open page, in place of what is there. ${secret:SCOPE} in the text "
    "stands for a secret of the user, which you never see. Returns what changed.",
    input_schema=strict_object(
        **ELEMENT,
        text=text("The text; ${secret:SCOPE} stands for a secret."),
        submit=nullable("boolean", "Press Enter afterwards (default false)."),
        label=LABEL,
    ),
    output_schema=OUTPUT,
    propose=_propose_type,
    apply=_apply_type,
    timeout=TIMEOUT,
    risk=Risk.MEDIUM,
    effects=frozenset({"network", "external"}),
    capabilities=frozenset({ACTS_ON_STATE}),
    referenced_secrets=_referenced_secrets,
    sources=("web",),
    sinks=("web",),
    format_preview=_preview_type,
    groups=("browser", "web"),
    profiles=("coding",),
    unavailable=chromium.missing,
)
BROWSER_SELECT: Final = builtin_tool(
    name="browser.select",
    description="Select options of a selection list of the open page. Returns what changed.",
    input_schema=strict_object(
        **ELEMENT,
        values={**array({"type": "string"}), "description": "The options, by label or value.", "minItems": 1},
        label=LABEL,
    ),
    output_schema=OUTPUT,
    propose=_propose_select,
    apply=_apply_select,
    timeout=TIMEOUT,
    risk=Risk.MEDIUM,
    effects=frozenset({"network", "external"}),
    capabilities=frozenset({ACTS_ON_STATE}),
    sources=("web",),
    sinks=("web",),
    format_preview=_preview_select,
    groups=("browser", "web"),
    profiles=("coding",),
    unavailable=chromium.missing,
)
