"""Pages as text: HTML, feeds and JSON; results of a search page; passages around a text; robots.txt.

Only the extraction process imports this module: what it parses was written by strangers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast
from urllib.parse import urldefrag, urljoin

from holdfast.tools.extraction.content import Decoded, decode
from holdfast.tools.extraction.documents import pdf_text

_MAX_LINKS: Final = 2000
_MAX_LINK_TEXT: Final = 200
_MAX_PASSAGES: Final = 20
_MAX_HITS: Final = 100_000
_AROUND: Final = 240
_MAX_JSON_CHARS: Final = 10_000_000
_MAX_FEED_ITEMS: Final = 500
_SUMMARY_CHARS: Final = 500
_SKIPPED: Final = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "math"})
_BLOCK_NAMES: Final = (
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hgroup hr li main menu nav ol option p pre section summary table tbody tfoot thead "
    "title tr ul"
)
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_MARKS: Final = re.compile(r"(`[^`]+`)|\\([!-/:-@\[-`{-~])|\*{1,3}|__|~~")
"""Inline code, an escaped character, or a mark of emphasis."""
_SPACES: Final = re.compile(r"[^\S\n]+")
_BLANK_LINES: Final = re.compile(r"\n{3,}")

Answer = dict[str, Any]
Element = Any  # lxml has no types


def _lxml() -> tuple[Any, Any]:
    from lxml import etree, html  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

    return cast("tuple[Any, Any]", (etree, html))


def render(request: dict[str, Any], body: bytes) -> Answer:
    """Return `text`, `title`, `notes`, and for a search the passages with their offsets."""
    kind, mode = request["kind"], request["mode"]
    if kind == "pdf":
        made: Answer = {"text": pdf_text(body), "title": None, "notes": []}
    elif kind == "html":
        made = _html(request, body)
    else:
        made = _plain(kind, mode, body, request["content_type"])
    if mode == "find":
        made |= find_passages(made["text"], request["find"])
    return made


def _plain(kind: str, mode: str, body: bytes, content_type: str | None) -> Answer:
    decoded = decode(body, content_type)
    notes = _charset_notes(decoded)
    if mode == "raw":
        return {"text": decoded.text, "title": None, "notes": notes}
    if kind == "json":
        try:
            text = _indented(json.loads(decoded.text))
        except (ValueError, RecursionError):
            return {"text": decoded.text, "title": None, "notes": [*notes, "It is not valid JSON."]}
        if text is None:
            notes.append(f"It is shown as it was sent: indented, it has more than {_MAX_JSON_CHARS:,} characters.")
        return {"text": decoded.text if text is None else text, "title": None, "notes": notes}
    if kind == "xml" and mode != "links":
        feed = _feed(body)
        if feed is not None:
            return {**feed, "notes": [*notes, *feed["notes"]]}
    if mode == "links":
        found = dict.fromkeys(re.findall(r"https?://[^\s<>\"'`\\)\]}]+", decoded.text)[: 4 * _MAX_LINKS])
        return {**_link_list([(url, "") for url in found]), "title": None, "notes": notes}
    return {"text": decoded.text, "title": None, "notes": notes}


def _indented(value: object) -> str | None:
    """Return JSON with indentation; None if it becomes too long, as nested lists in a small body can make it."""
    parts: list[str] = []
    size = 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        size += len(part)
        if size > _MAX_JSON_CHARS:
            return None
        parts.append(part)
    return "".join(parts)


def _charset_notes(decoded: Decoded) -> list[str]:
    return [f"Bytes that are not valid {decoded.charset} were replaced by \ufffd."] if decoded.damaged else []


# HTML


def _html(request: dict[str, Any], body: bytes) -> Answer:
    decoded = decode(body, request["content_type"])
    notes = _charset_notes(decoded)
    mode = request["mode"]
    if mode == "raw":
        return {"text": decoded.text, "title": None, "notes": notes}
    tree = _parse_for_trafilatura(decoded.text) if mode == "readable" else _parse_html(decoded.text)
    if tree is None:
        return {"text": "", "title": None, "notes": [*notes, "The page is empty."]}
    title = _title(tree)
    if (target := _meta_refresh(tree)) is not None:
        to = _joined(request["url"], target) or target
        notes.append(f"The page asks browsers to go to {to}; that was not followed.")
    if mode == "links":
        return {**_html_links(tree, request["url"]), "title": title, "notes": notes}
    text = _readable(tree, request["url"]) if mode == "readable" else None
    if text is None:
        text = _html_text(tree)
        if mode == "readable":
            notes.append("No article was found on the page, so this is its whole text.")
        if not text:
            notes.append("The page has no text. It may need JavaScript; the mode raw shows its source.")
    return {"text": text, "title": title, "notes": notes}


def _parse_for_trafilatura(text: str) -> Element | None:
    from trafilatura import load_html

    tree: Any = load_html(text)
    return _parse_html(text) if tree is None else tree  # it rejects fragments that still have text


def _parse_html(text: str) -> Element | None:
    etree, html = _lxml()
    parser = html.HTMLParser(encoding="utf-8", collect_ids=False, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def _title(tree: Element) -> str | None:
    found = tree.find(".//title")
    text = "" if found is None else " ".join("".join(map(str, found.itertext())).split())
    return text[:300] or None


def _meta_refresh(tree: Element) -> str | None:
    for meta in tree.iter("meta"):
        if (meta.get("http-equiv") or "").strip().lower() == "refresh":
            found = re.search(r"url\s*=\s*['\"]?([^'\"\s>]+)", meta.get("content") or "", re.IGNORECASE)
            if found is not None:
                return found[1][:2000]
    return None


def _readable(tree: Element, url: str) -> str | None:
    from trafilatura import extract

    whole: Any = tree
    found = extract(whole, url=url, output_format="markdown", include_comments=False, include_tables=True)
    return None if found is None else _without_emphasis(found)


def _without_emphasis(markdown: str) -> str:
    """Return Markdown without bold and italic marks and without backslashes before literal ones: they split words that
    a reader searches for. Headings, lists, tables and code stay."""
    lines: list[str] = []
    in_code = False
    for line in markdown.split("\n"):
        fence = line.startswith("```")
        in_code ^= fence
        lines.append(line if fence or in_code else _MARKS.sub(lambda found: found[1] or found[2] or "", line))
    return "\n".join(lines)


def _html_text(tree: Element) -> str:
    """Return all visible text, block by block. Iterative: a hostile page nests deeper than Python recurses."""
    etree, _ = _lxml()
    parts: list[str] = []
    skipped = 0
    for event, node in etree.iterwalk(tree, events=("start", "end", "comment", "pi")):
        name = node.tag if isinstance(node.tag, str) else None
        if event == "start":
            if name in _SKIPPED:
                skipped += 1
            if not skipped:
                parts.append("\n" if name in _BLOCKS or name == "br" else "\t" if name in ("td", "th") else "")
                parts.append(_SPACES.sub(" ", (node.text or "").replace("\n", " ")))
            continue
        if event == "end" and name in _SKIPPED:
            skipped -= 1
        if not skipped:
            if event == "end" and name in _BLOCKS:
                parts.append("\n")
            parts.append(_SPACES.sub(" ", (node.tail or "").replace("\n", " ")))
    lines = (_SPACES.sub(" ", line).strip() for line in "".join(parts).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _html_links(tree: Element, url: str) -> Answer:
    base = next((node.get("href") for node in tree.iter("base") if node.get("href")), None)
    at = _joined(url, base) if base else url
    found: dict[str, str] = {}
    for node in tree.iter("a", "area"):
        target = _joined(at or url, node.get("href") or "")
        if target is None or not target.startswith(("http://", "https://")):
            continue
        text = " ".join("".join(map(str, node.itertext())).split()) or (node.get("title") or node.get("alt") or "")
        target = urldefrag(target)[0]
        if not found.get(target):
            found[target] = text[:_MAX_LINK_TEXT]
    return _link_list(list(found.items()))


def _joined(url: str, reference: str) -> str | None:
    try:
        return urljoin(url, reference.strip()) if reference.strip() else None
    except ValueError:
        return None


def _link_list(links: list[tuple[str, str]]) -> Answer:
    shown = [f"- {text} <{url}>" if text else f"- <{url}>" for url, text in links[:_MAX_LINKS]]
    if len(links) > _MAX_LINKS:
        shown.append(f"[{len(links) - _MAX_LINKS:,} more links]")
    return {"text": "\n".join(shown)}


# Feeds and passages


def _feed(body: bytes) -> Answer | None:
    """Return an RSS or Atom feed as a list of its entries; None for other XML."""
    etree, _ = _lxml()
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False, load_dtd=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None
    if root is None or _local_name(root) not in ("rss", "feed", "RDF"):
        return None
    entries = [node for node in root.iter() if _local_name(node) in ("item", "entry")]
    channel = next((node for node in root if _local_name(node) == "channel"), root)
    lines = [line for node in entries[:_MAX_FEED_ITEMS] for line in _entry(node)]
    more = len(entries) - _MAX_FEED_ITEMS
    notes = [f"{more:,} more entries are left out."] if more > 0 else []
    return {"text": "\n".join(lines).strip(), "title": _child_text(channel, "title"), "notes": notes}


def _entry(node: Any) -> Iterator[str]:
    link = _child_text(node, "link") or next(
        (child.get("href") for child in node if _local_name(child) == "link" and child.get("href")), None
    )
    yield f"- {_child_text(node, 'title') or '(no title)'}" + (f" <{link}>" if link else "")
    for name in ("pubDate", "published", "updated", "date"):
        if when := _child_text(node, name):
            yield f"  {when}"
            break
    for name in ("description", "summary", "content"):
        if told := _child_text(node, name):
            plain = " ".join(re.sub(r"<[^>]{0,1000}>", " ", told).split())
            yield f"  {plain[:_SUMMARY_CHARS]}{'…' if len(plain) > _SUMMARY_CHARS else ''}"
            break


def _local_name(node: Any) -> str:
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


def _child_text(node: Any, name: str) -> str | None:
    found = next((child for child in node if _local_name(child) == name), None)
    text = "" if found is None else " ".join("".join(map(str, found.itertext())).split())
    return text or None


def find_passages(text: str, wanted: str) -> Answer:
    """Return the passages around a text, with the offsets of its occurrences. Spaces and letter case do not matter."""
    words = wanted.split()
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE) if words else re.compile(r"(?!)")
    hits = [match.span() for match in islice(pattern.finditer(text), _MAX_HITS)]
    passages: list[tuple[int, int, int]] = []
    for start, end in hits:
        first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
        if passages and first <= passages[-1][2]:
            passages[-1] = (passages[-1][0], passages[-1][1], last)
        elif len(passages) < _MAX_PASSAGES:
            passages.append((start, first, last))
        else:
            break
    shown = [
        f"[offset {start}]\n{'…' if first else ''}{text[first:last].strip()}{'…' if last < len(text) else ''}"
        for start, first, last in passages
    ]
    return {"text": "\n\n".join(shown), "found": len(hits), "passages": len(passages)}


def read_search_page(request: dict[str, Any], body: bytes) -> Answer:
    """Return the results of a DuckDuckGo page: `results`, or `blocked` if it asks for a human."""
    tree = _parse_html(decode(body, request["content_type"]).text)
    if tree is None:
        return {"results": [], "blocked": False, "known": False}
    every: list[Any] = list(tree.iter())
    blocked = any("anomaly" in (node.get("class") or "") or node.get("id") == "challenge-form" for node in every)
    found: list[dict[str, str]] = []
    for node in every:
        classes = (node.get("class") or "").split() if isinstance(node.tag, str) else []
        if "result" not in classes or "result--ad" in classes:
            continue
        link = next((each for each in node.iter("a") if "result__a" in (each.get("class") or "").split()), None)
        if link is None:
            continue
        about = next((each for each in node.iter() if "result__snippet" in (each.get("class") or "").split()), None)
        snippet = "" if about is None else _squeezed(about)
        found.append({"title": _squeezed(link), "url": link.get("href") or "", "snippet": snippet})
    known = bool(found) or any("no-results" in (node.get("class") or "") for node in every)
    return {"results": found, "blocked": blocked, "known": known}


def check_robots(request: dict[str, Any], body: bytes) -> Answer:
    """Return whether a robots.txt allows an address. Here, because its patterns could be made to match forever."""
    from protego import Protego

    rules = Protego.parse(body.decode("utf-8", "replace").removeprefix("\ufeff"))
    return {"allowed": bool(rules.can_fetch(request["url"], request["agent"]))}


def _squeezed(node: Any) -> str:
    return " ".join("".join(map(str, node.itertext())).split())
