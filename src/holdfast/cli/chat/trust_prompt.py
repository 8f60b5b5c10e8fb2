"""Whether a document's frontmatter may loosen the rules: shown, asked about once, and kept for exactly that text."""

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
from holdfast.cli.json_output import JsonObject
from holdfast.cli.layout import field_lines, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import Flags, whoami
from holdfast.cli.prompt import confirm
from holdfast.config.config import effective_options
from holdfast.config.layers import LoadedConfig
from holdfast.config.options import describe_loosening as in_words
from holdfast.config.options import file_value
from holdfast.factory.chat import TOOLS_OPTION, ChatSession, TrustReview, review_trust
from holdfast.fs.own_paths import user_state_dir
from holdfast.store.trust import TrustStore
from holdfast.text.escape import escape
from holdfast.text.toml import toml_lines

_OFF: Final = "A tool that is switched off stays off, although the frontmatter of {} names it"
_FUNCTION: Final = "The function in the frontmatter of {} can only make the rules stricter"


def changed_options(now: LoadedConfig, then: LoadedConfig) -> list[JsonObject]:
    """The options that would get another value."""
    before, after = effective_options(now.config), effective_options(then.config)
    return [
        {"key": key, "from": file_value(before[key]), "to": file_value(value)}
        for key, value in after.items()
        if value != before[key]
    ]


def describe_loosening(now: LoadedConfig, then: LoadedConfig) -> list[str]:
    """In words, what trusting a file lets run without asking, or reach."""
    return in_words(now.config, then.config)


def loosened_options(review: TrustReview) -> list[JsonObject]:
    """All that trusting a frontmatter would change: options, tools that are switched off, a function that decides."""
    found = changed_options(review.now, review.then)
    if review.new_tools:
        found.append({"key": TOOLS_OPTION, "from": sorted(review.tools_now), "to": sorted(review.tools_then)})
    if review.has_function and not is_trusted(review):
        names = to_builtins(review.now.config.approval.auto_approve)
        found.append({"key": "approval.auto_approve", "from": names, "to": "a function of its own"})
    return found


def change_lines(found: list[JsonObject], stream: TextIO) -> Iterator[str]:
    """Section by section, as a file would say it: what holds now, and what would."""
    section = ""
    for change in found:
        head, _, name = change["key"].rpartition(".")
        if head != section:
            section = head
            yield console.paint(escape(f"[{section}]"), "bold", stream=stream)
        yield from quoted_field_lines("now", _written(section, name, change["from"]), stream, width=6)
        yield from quoted_field_lines("then", _written(section, name, change["to"]), stream, width=6)


def bullet_lines(said: Sequence[str], stream: TextIO) -> Iterator[str]:
    """In words, what will run without asking, or can be reached."""
    for words in said:
        yield from wrap_sentence(f"  - {escape(words)}", stream)


def review_lines(review: TrustReview, stream: TextIO) -> Iterator[str]:
    """What a person has to see before trusting a frontmatter: what it changes, and all of it."""
    yield console.paint("A frontmatter", "bold", stream=stream)
    yield from quoted_field_lines("file", location(review.path), stream, show=console.shown)
    yield from field_lines("content", review.digest, stream)
    options = changed_options(review.now, review.then)
    yield from change_lines(options, stream)
    if said := describe_loosening(review.now, review.then):
        yield console.paint("If you trust it", "bold", stream=stream)
        yield from bullet_lines(said, stream)
    if review.new_tools:
        yield from wrap_sentence(f"It switches on: {escape(', '.join(review.new_tools))}.", stream)
    if any(change["key"] == "chat.files" for change in options):
        everywhere = "Whatever is written into the document, also later, can then bring in files from anywhere."
        yield from wrap_sentence(everywhere, stream)
    if review.has_function:
        yield "It decides about calls with a function of its own."
    for found in review.diagnostics:
        yield from wrap_sentence(f"Warning: {console.shown(found.message)}", stream)
    if is_trusted(review):
        yield "It is trusted already."
    elif not loosened_options(review) and not describe_loosening(review.now, review.then):
        yield "It only tightens: trusting it changes nothing now."
    yield "It says:"
    yield from quote(review.source.rstrip("\n"), stream).lines


def wants_trust(review: TrustReview) -> bool:
    """Whether trusting it would change anything; a function counts, whatever it says."""
    loosens = loosened_options(review) or describe_loosening(review.now, review.then)
    return bool(loosens) and not is_trusted(review)


def frontmatter_digest(path: Path) -> str | None:
    """What a trust in the document's frontmatter, as it is now, is bound to."""
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
    """Ask the person whether the frontmatter counts in full. Whoever cancels this leaves it as it is."""
    if not ask:
        return
    found = review_trust(path, flags=flags or None)
    if found is None or not wants_trust(found):
        return
    console.print_err_lines(review_lines(found, sys.stderr))
    if await confirm("Trust exactly this frontmatter? Without, it can only tighten. [y/N] "):
        record_trust(found)
        console.print_err("Trusted. Any change to the frontmatter ends this.")
    else:
        console.print_err(f"Not trusted; `holdfast trust {location(path)}` does it later.")


def untrusted_notices(chat: ChatSession) -> Iterator[str]:
    """What is to be said of a frontmatter nobody trusted, where the configuration does not say it."""
    layer = chat.project.loaded.layer("document")
    said = () if layer is None else layer.ignored
    name = location(chat.path)
    for key in chat.untrusted:
        if key not in said:
            what = _OFF if key == TOOLS_OPTION else _FUNCTION
            yield what.format(name) + f", because nobody trusted it; read it, then run `holdfast trust {name}`."


def _written(section: str, name: str, value: Any) -> str:
    return f"{name} is not set" if value is None else "\n".join(toml_lines(section, name, value))


def _open_trust() -> Any:
    return TrustStore(user_state_dir() / "user.db")
