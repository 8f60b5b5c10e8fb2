"""Elicitation on the terminal: puts the questions of tools and MCP servers to the person, as quoted, untrusted text."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, TimeoutExpired
from typing import Any, Final, cast
from urllib.parse import urlsplit

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli.console import can_ask, paint, print_err, print_err_lines
from holdfast.cli.layout import print_message, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import whoami
from holdfast.cli.prompt import ENTER, edit_text, exclusive_terminal, read_hidden, read_key, read_line
from holdfast.config.roots import find_root
from holdfast.contract.elicitation import (
    CANCELLED,
    Elicitation,
    ElicitationReply,
    FormRequest,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
    UrlRequest,
)
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, Json
from holdfast.contract.names import mcp_server_name
from holdfast.helper_process import ProgramRefused, start, user_command, user_environment
from holdfast.net.addresses import is_loopback
from holdfast.rules.form_safety import Field, InvalidInput, asks_for_a_secret, form_fields, ordered_values, url_problem
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import clip_middle, escape, escape_once, escape_url
from holdfast.text.quote import EscapeLine

_MAX_LINES: Final = 60
"""Lines of a message."""
_MAX_SHOWN: Final = 20
"""Messages of a conversation that are shown; the last ones."""
_MAX_FIELDS: Final = 50
_MAX_CHOICES: Final = 100
_MAX_URL: Final = 4_000


class _InputEnded(Exception):
    """The person ended the input (Ctrl-D)."""


class TerminalElicitor:
    """An elicitor for `Runtime`. Without a terminal, or at the end of input, everything is cancelled."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by = whoami()

    async def __call__(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        replies: list[ElicitationReply] = []
        for question in elicitation.questions:
            if isinstance(question, RootsRequest):
                replies.append(ElicitationReply(action="accept", content=self._roots(), by=self._by))
            elif not can_ask() or any(reply.action == "cancel" for reply in replies):
                replies.append(CANCELLED)
            else:
                replies.append(await self._ask(elicitation, question))
        return tuple(replies)

    async def _ask(
        self, elicitation: Elicitation, question: FormRequest | UrlRequest | SamplingRequest
    ) -> ElicitationReply:
        async with exclusive_terminal():
            self._print_heading(elicitation)
            try:
                match question:
                    case FormRequest():
                        return await self._form(question)
                    case UrlRequest():
                        return await self._visit(question)
                    case SamplingRequest():
                        return await self._completion(question)
            except _InputEnded:
                print_err()
                return ElicitationReply(action="cancel", by=self._by)
            except asyncio.CancelledError:
                print_err()
                raise

    def _print_heading(self, elicitation: Elicitation) -> None:
        server = mcp_server_name(elicitation.asked_by)
        name = server or elicitation.asked_by
        who = f"The MCP server '{escape(name)}'" if server else f"The tool '{escape(name)}'"
        if name.startswith("holdfast "):  # a command: the name of a tool has no space
            who = f"`{name}`"
        call = f" (call {escape(elicitation.call_id)})" if elicitation.call_id else ""
        print_err()
        print_err_lines(wrap_sentence(f"{who} asks you{call}:", sys.stderr, "bold"))

    def _roots(self) -> Args:
        return _roots(self._runtime)

    async def _form(self, form: FormRequest) -> ElicitationReply:
        _quote(form.message)
        asked = form.schema.get("properties")
        if isinstance(asked, dict) and len(asked) > _MAX_FIELDS:
            print_err(f"Declined: the form has {len(asked):,} fields, more than {_MAX_FIELDS}.")
            return self._declined()
        try:
            fields = form_fields(form.schema)
        except HoldfastError as error:
            print_message(f"Declined, because it cannot be answered: {escape(clip_middle(str(error), 300))}")
            return self._declined()
        for field in fields:
            _show_field(field)
        secret = asks_for_a_secret(form)
        if secret and not any(field.secret for field in fields):  # the message asks for one, in no particular field
            fields = [replace(field, secret=field.is_typed) for field in fields]
        if secret:
            warning = "This seems to ask for a secret. Your answer is sent to the asker above. Decline if in doubt."
            print_err_lines(wrap_sentence(warning, sys.stderr, "red"))
        if not await _confirm("Answer? [y/N] "):
            return self._declined()
        values: dict[str, Json] = {}
        for field in fields:
            given = await _fill(field)
            if given is not UNSET:
                values[field.name] = cast(Json, given)
        _show_values(fields, values)
        if not await _confirm("Send this? [y/N] "):
            return self._declined()
        return ElicitationReply(action="accept", content=ordered_values(fields, values), by=self._by)

    async def _visit(self, visit: UrlRequest) -> ElicitationReply:
        _quote(visit.message)
        fault = url_problem(visit.url)
        print_err("You are asked to open this address:")
        _quote(escape_url(clip_middle(visit.url, _MAX_URL)), escape_once)
        if fault is not None:
            print_message(f"{fault} Declined.")
            return self._declined()
        print_err_lines(quoted_field_lines("host:", host_of(visit.url), sys.stderr, width=len("host:")))
        warning = address_warning(visit.url)
        if warning is not None:
            print_message(warning)
        while True:
            key = await _key("[y] I will open it myself  [o] open it in the browser  [n] no\n> ", "yon")
            if key == "n":
                return self._declined()
            if key == "o":
                problem = await open_address(visit.url)
                if problem is None:
                    return ElicitationReply(action="accept", by=self._by)
                print_err(problem)
            if key == "y":
                return ElicitationReply(action="accept", by=self._by)

    async def _completion(self, wanted: SamplingRequest) -> ElicitationReply:
        print_message("It asks for a model's reply. You can write one, which is sent to the asker above.")
        if wanted.system:
            _print_speech("instructions", wanted.system)
        hidden = len(wanted.messages) - _MAX_SHOWN
        if hidden > 0:
            print_err(f"[{hidden:,} earlier messages hidden]")
        for speech in wanted.messages[-_MAX_SHOWN:]:
            _print_speech(speech.role, _text_of(speech))
        text = await self._reply_text()
        if text is None:
            return self._declined()
        content: Args = {
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": "a person",
            "stopReason": "endTurn",
        }
        return ElicitationReply(action="accept", content=content, by=self._by)

    async def _reply_text(self) -> str | None:
        while True:
            key = await _key("[r] type a reply  [e] write it in your editor  [n] no\n> ", "ren")
            text: str | None = None
            if key == "n":
                return None
            if key == "r":
                text = await read_line("Reply: ")
                if text is None:
                    raise _InputEnded
            elif key == "e":
                text = await edit_text("", ".txt")
                if text is None:
                    print_err("No editor found. Set VISUAL or EDITOR.")
            if text is not None and text.strip():
                return text

    def _declined(self) -> ElicitationReply:
        return ElicitationReply(action="decline", by=self._by)


def attach_silent_elicitor(runtime: Runtime, servers: Collection[str] | None) -> None:
    """Attach an elicitor that cancels every question, for commands that ask nothing.

    Some MCP servers offer some tools only if the client supports elicitation. Not attached if one of `servers`, those
    that start, has a url: it might begin a login that nobody could complete.
    """

    async def cancel(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        return tuple(
            ElicitationReply(action="accept", content=_roots(runtime))
            if isinstance(question, RootsRequest)
            else CANCELLED
            for question in elicitation.questions
        )

    named = runtime.config.mcp.servers
    if all(server.url is None for name, server in named.items() if servers is None or name in servers):
        runtime.attach(elicitor=cancel)


def _roots(runtime: Runtime) -> Args:
    root = runtime.workspace.root
    return {"roots": [] if root is None else [{"uri": root.as_uri(), "name": root.name}]}


async def _fill(field: Field) -> Any:
    """Read a field's value; UNSET if it is left out."""
    has_default = field.default is not UNSET and not field.secret
    optional = has_default or not field.required
    aside = f" [{_short(field.default)}]" if has_default else "" if field.required else " (Enter to skip)"
    while True:
        *above, last = quote(f"{escape(clip_middle(field.title, 100))}{aside}", sys.stderr, show=escape_once).lines
        print_err_lines(above)
        question = f"{last}: "
        typed = await (read_hidden(question) if field.secret else read_line(question))
        if typed is None:
            raise _InputEnded
        if not typed.strip() and optional:
            return field.default if has_default else UNSET
        try:
            if not typed.strip():
                raise InvalidInput("a value is required")
            return field.read(typed)
        except InvalidInput as error:
            print_message(escape(clip_middle(str(error), 300)))


async def _confirm(question: str) -> bool:
    return await _key(question, ("y", "n", ENTER)) == "y"


async def _key(question: str, keys: Collection[str]) -> str:
    key = await read_key(question, keys)
    if key is None:
        raise _InputEnded
    return key


def _quote(text: str, show: EscapeLine | None = None) -> None:
    print_err_lines(quote(text, sys.stderr, _MAX_LINES, show=show).lines)


def _show_field(field: Field) -> None:
    parts = [field.hint, "" if field.required else "optional"]
    about = ", ".join(part for part in parts if part)
    tail = f": {escape(clip_middle(field.description, 500))}" if field.description else ""
    _quote(f"• {escape(clip_middle(field.title, 100))}{f' ({escape(about)})' if about else ''}{tail}", escape_once)
    for number, choice in enumerate(field.choices[:_MAX_CHOICES], 1):
        _quote(f"    {number}. {escape(clip_middle(choice.title, 200))}", escape_once)
    if len(field.choices) > _MAX_CHOICES:
        print_err(f"  [{len(field.choices) - _MAX_CHOICES:,} more hidden]")


def _show_values(fields: Sequence[Field], values: dict[str, Json]) -> None:
    for field in fields:
        if field.name in values:
            value = "(hidden)" if field.secret else _short(values[field.name])
            _quote(f"{escape(clip_middle(field.title, 100))}: {value}", escape_once)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(clip_middle(text, 200))


def _print_speech(who: str, text: str) -> None:
    print_err(paint(f"  {escape(who)}:", "bold", stream=sys.stderr))
    _quote(text)


def _text_of(speech: SamplingMessage) -> str:
    """Return the text of a message; other content is named in brackets."""
    content = speech.content
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(_block(block) for block in blocks)


def _block(block: Json) -> str:
    if not isinstance(block, dict):
        return str(block)
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str):
        return text
    data = block.get("data")
    size = f", {len(data):,} characters" if isinstance(data, str) else ""
    kind = block.get("type")
    if size:
        return f"[{kind}{size}]"
    return f"[{kind}: {clip_middle(json.dumps(block, ensure_ascii=False), 1_000)}]"


_STARTING: Final = 5.0
"""Seconds within which a browser that cannot start exits; after that it counts as open."""


def address_warning(url: str) -> str | None:
    """Return what the person should know about a valid address before opening it, if anything."""
    if urlsplit(url).scheme == "http" and not is_loopback(host_of(url)):
        return "The connection is not encrypted (http), so holdfast does not open it."
    return None


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


async def open_address(url: str) -> str | None:
    """Open the address in the person's browser; return None, or why it failed."""
    if url_problem(url) is not None or address_warning(url) is not None:
        return "holdfast does not open this address. Open it yourself if you trust it."
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "No graphical browser here. Copy the address."
    return await asyncio.to_thread(_start_browser, url)


def _start_browser(url: str) -> str | None:
    """Return None, or why no browser could be started."""
    # Not `webbrowser`: it searches the whole PATH, which may include the project's own folders.
    project = find_root(Path.cwd()) or Path.cwd()
    environment = user_environment(project)
    chosen = [one for one in os.environ.get("BROWSER", "").split(os.pathsep) if one]
    fault = ""
    for command in (*chosen, *(("open",) if sys.platform == "darwin" else ("xdg-open", "x-www-browser"))):
        try:
            program, *words = user_command(command, project)
        except ProgramRefused as error:
            fault = fault or (f" (BROWSER: {error})" if command in chosen else "")
            continue
        argv = (program, *((word.replace("%s", url) for word in words) if "%s" in command else (*words, url)))
        with suppress(OSError):
            process = start(
                argv, env=environment, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
            )
            try:
                failed = process.wait(_STARTING) != 0
            except TimeoutExpired:
                return None
            if not failed:
                return None
    return f"Cannot start a browser{fault}. Copy the address."
