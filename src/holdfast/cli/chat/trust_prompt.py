"""Asks whether to trust a document's frontmatter, and describes what trusting a file would loosen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from msgspec import to_builtins

from holdfast.chat import document_file
from holdfast.chat.document import Document
from holdfast.chat.frontmatter.evaluation import digest_of_frontmatter
from holdfast.cli import console
from holdfast.cli.chat.documents import location
from holdfast.cli.layout import field_lines, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import Flags, whoami
from holdfast.cli.prompt import confirm
from holdfast.config.config import effective_options
from holdfast.config.layers import LoadedConfig
from holdfast.config.options import describe_loosening as in_words
from holdfast.config.options import file_value
from holdfast.factory.chat import TOOLS_OPTION, ChatSession, TrustReview, review_trust
from holdfast.fs.own_paths import user_state_dir
from holdfast.json_output import JsonObject
from holdfast.store.trust import TrustStore
from holdfast.text.escape import escape, escape_once
from holdfast.text.toml import toml_lines

_DISABLED_TOOL: Final = "A disabled tool that the frontmatter of {} enables stays disabled"
_FUNCTION: Final = "The function in the frontmatter of {} can only make the rules stricter"


def changed_options(now: LoadedConfig, then: LoadedConfig) -> list[JsonObject]:
    """Return the options whose value would change."""
    before, after = effective_options(now.config), effective_options(then.config)
    return [
        {"key": key, "from": file_value(before[key]), "to": file_value(value)}
        for key, value in after.items()
        if value != before[key]
    ]


def describe_loosening(now: LoadedConfig, then: LoadedConfig) -> list[str]:
    """Return sentences about what would run without asking, or become reachable."""
    return in_words(now.config, then.config)


def loosened_options(review: TrustReview) -> list[JsonObject]:
    """Return everything that trusting a frontmatter would change: options, disabled tools, an approval function."""
    found = changed_options(review.now, review.then)
    if review.new_tools:
        found.append({"key": TOOLS_OPTION, "from": sorted(review.tools_now), "to": sorted(review.tools_then)})
    if review.has_function and not is_trusted(review):
        names = to_builtins(review.now.config.approval.auto_approve)
        found.append({"key": "approval.auto_approve", "from": names, "to": "a function in the frontmatter"})
    return found


def change_lines(found: list[JsonObject], stream: TextIO) -> Iterator[str]:
    """Yield the changes section by section, as TOML: the value now, and the value then."""
    section = ""
    for change in found:
        head, _, name = change["key"].rpartition(".")
        if head != section:
            section = head
            yield console.paint(escape(f"[{section}]"), "bold", stream=stream)
        yield from quoted_field_lines("now", _written(section, name, change["from"]), stream, width=6)
        yield from quoted_field_lines("then", _written(section, name, change["to"]), stream, width=6)


def bullet_lines(texts: Sequence[str], stream: TextIO) -> Iterator[str]:
    for text in texts:
        yield from wrap_sentence(f"  - {escape(text)}", stream)


def review_lines(review: TrustReview, stream: TextIO) -> Iterator[str]:
    """Yield what a person has to see before trusting a frontmatter: its effects, and its full text."""
    yield console.paint("Frontmatter", "bold", stream=stream)
    yield from quoted_field_lines("file", location(review.path), stream, show=escape_once)
    yield from field_lines("content", review.digest, stream)
    options = changed_options(review.now, review.then)
    yield from change_lines(options, stream)
    if effects := describe_loosening(review.now, review.then):
        yield console.paint("If you trust it", "bold", stream=stream)
        yield from bullet_lines(effects, stream)
    if review.new_tools:
        yield from wrap_sentence(f"It enables: {escape(', '.join(review.new_tools))}.", stream)
    if any(change["key"] == "chat.files" for change in options):
        warning = "Any text in the document, now or later, could then include files from anywhere."
        yield from wrap_sentence(warning, stream)
    if review.has_function:
        yield "It contains a function that decides about calls."
    for found in review.diagnostics:
        yield from wrap_sentence(f"Warning: {escape_once(found.message)}", stream)
    if is_trusted(review):
        yield "It is already trusted."
    elif not loosened_options(review) and not describe_loosening(review.now, review.then):
        yield "It only tightens the rules, so trusting it changes nothing now."
    yield "Full text:"
    yield from quote(review.source.rstrip("\n"), stream).lines


def wants_trust(review: TrustReview) -> bool:
    """Return whether trusting it would change anything. A function always counts."""
    loosens = loosened_options(review) or describe_loosening(review.now, review.then)
    return bool(loosens) and not is_trusted(review)


def frontmatter_digest(path: Path) -> str | None:
    """Return the digest of the document's current frontmatter, which trust is bound to."""
    found = Document.parse(document_file.decode(document_file.read(path).data)).frontmatter
    return None if found is None else digest_of_frontmatter(found.language, found.code)


def is_trusted(review: TrustReview) -> bool:
    trust = _open_trust()
    try:
        return trust.is_trusted(review.path, review.digest)
    finally:
        trust.close()


def record_trust(review: TrustReview) -> None:
    trust = _open_trust()
    try:
        trust.trust(review.path, review.digest, by=whoami())
    finally:
        trust.close()


async def ask_for_trust(path: Path, flags: Flags, *, ask: bool) -> None:
    """Ask the person whether to trust the frontmatter, if that would change anything. Cancelling leaves it as it is."""
    if not ask:
        return
    found = review_trust(path, flags=flags or None)
    if found is None or not wants_trust(found):
        return
    console.print_err_lines(review_lines(found, sys.stderr))
    if await confirm("Trust this frontmatter? Otherwise it can only tighten the rules. [y/N] "):
        record_trust(found)
        console.print_err("Trusted until the frontmatter changes.")
    else:
        console.print_err(f"Not trusted. You can do it later with `holdfast trust {location(path)}`.")


def untrusted_notices(chat: ChatSession) -> Iterator[str]:
    """Yield notices about an untrusted frontmatter that the configuration loader does not give."""
    layer = chat.project.loaded.layer("document")
    noted = () if layer is None else layer.ignored
    name = location(chat.path)
    for key in chat.untrusted:
        if key not in noted:
            effect = _DISABLED_TOOL if key == TOOLS_OPTION else _FUNCTION
            yield effect.format(name) + f", because it is not trusted. Read it, then run `holdfast trust {name}`."


def _written(section: str, name: str, value: Any) -> str:
    return f"{name} is not set" if value is None else "\n".join(toml_lines(section, name, value))


def _open_trust() -> Any:
    return TrustStore(user_state_dir() / "user.db")
