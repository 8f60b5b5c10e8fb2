"""A `.chat` document as HTML: messages, tool calls and results, with pending calls shown as cards in their place.

Text is very plain Markdown: paragraphs, code fences and web links. No HTML of the document passes through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from markupsafe import Markup

from holdfast.chat.document import Document
from holdfast.chat.parser import (
    AbortedSegment,
    AttachmentLink,
    Frontmatter,
    MessageBlock,
    Preamble,
    Segment,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import parse_json
from holdfast.serve.proposal_view import arguments_html
from holdfast.serve.result_view import is_web_url, link_html
from holdfast.serve.text_view import block_html, escapes_html, fold_html, inline_html, size_words, visible_line
from holdfast.store.redact import Redactor
from holdfast.text.escape import escape_url

Card = Callable[[str], Markup | None]
"""Returns the card of a pending call by the id that the document gives it, or None if the call is not pending."""

_ROLES: Final = {"You": "you", "Assistant": "assistant", "System": "system"}
_TOKENS: Final = Redactor()
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\r]*?)[ \t\r]*\Z")
_URL: Final = re.compile(r"https?://[!-~]+")
_AFTER_URL: Final = ".,;:!?)]}>'\""
"""Punctuation that ends a sentence or a bracket around an address."""


def document_html(document: Document, card: Card) -> Markup:
    """Return the whole document. A placeholder is replaced by its card, only where its id occurs last: earlier turns
    may have used the same id."""
    cards = _last_placeholders(document)
    at = 0
    parts: list[Markup] = []
    for block in document.blocks:
        if isinstance(block, Frontmatter):
            title = f"Front matter, {block.language}" if block.language.isalnum() else "Front matter"
            parts.append(fold_html(title, block.code, block_html(block.code)))
        elif isinstance(block, Preamble):
            if block.source.strip():
                shown = fold_html("Not sent", block.source, block_html(block.source.strip("\n")))
                parts.append(Markup('<div class="preamble">{}</div>').format(shown))
        else:
            parts.append(_message(block, at, cards, card))
            at += len(block.segments)
    return Markup('<div class="document">{}</div>').format(Markup("").join(parts))


def _last_placeholders(document: Document) -> dict[int, str]:
    """The ids of placeholders by the place of the segment, counted over all messages."""
    segments = (segment for message in document.messages for segment in message.segments)
    last: dict[str, int] = {}
    for place, segment in enumerate(segments):
        if isinstance(segment, ToolResultSegment) and segment.status is not None:
            last[segment.id] = place
    return {place: call_id for call_id, place in last.items()}


def _message(message: MessageBlock, first: int, cards: dict[int, str], card: Card) -> Markup:
    parts: list[Markup] = []
    for place, segment in enumerate(message.segments, first):
        pending = card(cards[place]) if place in cards else None
        parts.append(_segment(segment) if pending is None else pending)
    return Markup('<article class="message" data-role="{}"><h3>{}</h3>{}</article>').format(
        _ROLES.get(message.role, "other"), inline_html(message.role), Markup("").join(parts)
    )


def _segment(segment: Segment) -> Markup:
    match segment:
        case TextSegment():
            return text_html(segment.text)
        case ThinkingSegment():
            return _thinking(segment)
        case ToolUseSegment():
            return _tool_use(segment)
        case ToolResultSegment():
            return _tool_result(segment)
        case AbortedSegment():
            return Markup('<p class="warning">Stopped: {}</p>').format(inline_html(segment.message))
        case AttachmentLink():
            return _attachment(segment)


def _thinking(segment: ThinkingSegment) -> Markup:
    if segment.redacted:
        return Markup('<p class="muted">The provider hides this part of the thinking.</p>')
    return Markup('<details class="thinking"><summary>Thinking, {}</summary>{}</details>').format(
        size_words(segment.text), text_html(segment.text)
    )


def _tool_use(segment: ToolUseSegment) -> Markup:
    problem = Markup("") if segment.problem is None else Markup('<p class="warning">{}</p>').format(segment.problem)
    return Markup('<section class="tool-use"><h4>Calls {} <span class="tag">{}</span></h4>{}{}</section>').format(
        inline_html(segment.name), inline_html(segment.id), problem, _arguments(segment.body)
    )


def _arguments(body: str) -> Markup:
    try:
        args = parse_json(body)
    except HoldfastError:
        args = None
    if isinstance(args, dict):
        return arguments_html(args, redactor=_TOKENS)
    return fold_html("Arguments", body, block_html(body)) if body else Markup("")


def _tool_result(segment: ToolResultSegment) -> Markup:
    if segment.status is not None:
        title = Markup('Call <span class="tag">{}</span> is {}').format(inline_html(segment.id), segment.status)
    else:
        title = Markup('{} of <span class="tag">{}</span>').format(
            "Error" if segment.error else "Result", inline_html(segment.id)
        )
    body = fold_html("Content", segment.content, block_html(segment.content, name="output")) if segment.content else ""
    problem = Markup("") if segment.problem is None else Markup('<p class="warning">{}</p>').format(segment.problem)
    kind = "tool-result error" if segment.error else "tool-result"
    return Markup('<section class="{}"><h4>{}</h4>{}{}</section>').format(kind, title, problem, body)


def _attachment(link: AttachmentLink) -> Markup:
    target = link_html(link.target) if link.linked else Markup("<code>{}</code>").format(inline_html(link.target))
    hidden = "" if link.sent else Markup(' <span class="tag">not shown to the model</span>')
    label = inline_html(link.label)
    return Markup('<p class="attachment">Attachment {}: {}{}</p>').format(label, target, hidden)


def text_html(text: str) -> Markup:
    """Return text as paragraphs and code blocks. Every line is shown, and only web addresses become links."""
    parts: list[Markup] = []
    lines: list[str] = []
    fence, info = "", ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence and found:
            parts.extend(_paragraphs(lines))
            lines, fence, info = [], found[1], found[2]
        elif fence and found and found[1].startswith(fence) and not found[2]:
            parts.append(_code(lines, info))
            lines, fence = [], ""
        else:
            lines.append(line)
    parts.extend([_code(lines, info)] if fence else _paragraphs(lines))
    return Markup('<div class="text">{}</div>').format(Markup("").join(parts))


def _code(lines: list[str], info: str) -> Markup:
    code = block_html("\n".join(lines), name="code")
    return (
        Markup('<div class="fence"><span class="tag">{}</span>{}</div>').format(inline_html(info), code)
        if info
        else code
    )


def _paragraphs(lines: list[str]) -> Iterator[Markup]:
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(_linked(visible_line(line)))
        elif paragraph:
            yield Markup("<p>{}</p>").format(Markup("\n".join(paragraph)))  # noqa: S704 - every line is escaped
            paragraph = []


def _linked(shown: str) -> str:
    """Return visible text as HTML with links on web addresses whose host is clear."""
    parts: list[str] = []
    at = 0
    for found in _URL.finditer(shown):
        url = found[0].rstrip(_AFTER_URL)
        if not is_web_url(url) or escape_url(url) != url:
            continue
        parts.append(escapes_html(shown[at : found.start()]))
        parts.append(str(link_html(url)))
        at = found.start() + len(url)
    parts.append(escapes_html(shown[at:]))
    return "".join(parts)
