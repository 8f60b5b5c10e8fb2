"""`Message`: the text about a burst of pending calls. Nothing in it is longer, or other, than a channel may show.

Only the preview of a call is used, never its arguments. It is redacted, then escaped, then cut, in this order: a secret
must be recognised whole, and an escape must not be cut from a character that was never shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Risk
from holdfast.store.redact import TOKEN_PREFIXES, Redactor
from holdfast.text.escape import ELLIPSIS, clip, escape_once

MAX_QUESTION: Final = 240
"""Columns of one question."""
MAX_QUESTIONS: Final = 5
_MAX_NAME: Final = 60
"""Columns of the name of a tool, a project or an agent."""
_MAX_LINK: Final = 500


class Question(Struct, frozen=True, kw_only=True):
    """One pending call, as a notification shows it. All texts are redacted, escaped and bounded."""

    id: str
    tool: str
    summary: str
    """What the call would do: its preview without the name of the tool. May be empty."""
    risk: Risk | None
    """None if the tool made no proposal, so that the risk of this call is not known."""
    project: str
    agent: str
    """The agent that asks; without one, the interface."""
    digest: str
    held_at: float
    expires_at: float | None
    link: str

    def sentence(self) -> str:
        """`shell.exec asks: rm -rf build (high risk), in web by coder`"""
        what = f": {self.summary}" if self.summary else " to run"
        risk = "" if self.risk is None else f" ({self.risk} risk)"
        return f"{self.tool} asks{what}{risk}, in {self.project} by {self.agent}"


class Message(Struct, frozen=True, kw_only=True):
    event: Literal["pending", "test"]
    title: str
    lines: tuple[str, ...]
    """Without newlines and control characters."""
    link: str
    """Where to answer; may be empty. It carries no token."""
    questions: tuple[Question, ...] = ()
    """Every call of the burst, also those that `lines` only counts."""

    @property
    def urgent(self) -> bool:
        return any(question.risk is Risk.HIGH for question in self.questions)

    def one_line(self) -> str:
        """The title and the first line, for a channel that shows no more."""
        return f"{self.title}: {self.lines[0]}"


def question_of(
    pending: PendingCall, project: str, redactor: Redactor, *, link: str = "", expires_at: float | None = None
) -> Question:
    """Return what may be said about a call. `project` is the path of its root, of which the last part is shown."""
    call = pending.call
    preview = _redacted(pending.preview, redactor)
    for name in (call.name_used, call.tool):
        preview = preview.removeprefix(f"{name}: ")
    return Question(
        id=call.id,
        tool=_name(call.tool, redactor),
        summary="" if preview in (call.name_used, call.tool) else clip(escape_once(preview), MAX_QUESTION),
        risk=None if pending.proposal is None else pending.proposal.risk,
        project=_name(PurePath(project).name or project, redactor),
        agent=_name(call.caller.agent or call.caller.interface, redactor),
        digest=pending.digest,
        held_at=pending.held_at,
        expires_at=expires_at,
        link=safe_link(link),
    )


def pending_message(questions: Sequence[Question], *, inbox: str = "") -> Message:
    """Return the message about a burst of at least one call. `inbox` is the link if there are several."""
    if len(questions) == 1:
        (only,) = questions
        return Message(
            event="pending",
            title="holdfast: 1 call is pending",
            lines=(only.sentence(),),
            link=only.link,
            questions=(only,),
        )
    tools = Counter(question.tool for question in questions)
    ranks = {tool: rank for rank, (tool, _) in enumerate(tools.most_common())}
    grouped = sorted(questions, key=lambda question: ranks[question.tool])  # stable: oldest first within a tool
    kinds = [f"{count} × {tool}" if count > 1 else tool for tool, count in tools.most_common(MAX_QUESTIONS)]
    others = f" and {len(tools) - len(kinds)} other tools" if len(tools) > len(kinds) else ""
    hidden = len(grouped) - MAX_QUESTIONS
    return Message(
        event="pending",
        title=f"holdfast: {len(questions):,} calls are pending",
        lines=(
            f"{', '.join(kinds)}{others}",
            *(question.sentence() for question in grouped[:MAX_QUESTIONS]),
            *((f"and {hidden:,} more",) if hidden > 0 else ()),
        ),
        link=safe_link(inbox) or grouped[0].link,
        questions=tuple(questions),
    )


def trial_message() -> Message:
    """Return the message of `holdfast notify test`."""
    return Message(
        event="test",
        title="holdfast: test notification",
        lines=("This channel works. Pending calls are announced like this.",),
        link="",
    )


def safe_link(link: str) -> str:
    """Return a link without user name, query and fragment, which could carry a token; empty if it is not http(s)."""
    try:
        parts = urlsplit(link)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    plain = link.isascii() and link.isprintable() and not any(char in link for char in ' "<>\\^`{|}')
    if parts.scheme not in ("http", "https") or not host or not plain:
        return ""
    shown = f"[{host}]" if ":" in host else host
    found = f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path}"
    return found if len(found) <= _MAX_LINK else ""


def _name(text: str, redactor: Redactor) -> str:
    return clip(escape_once(redactor(text)), _MAX_NAME)


def _redacted(text: str, redactor: Redactor) -> str:
    """Redact a preview. The end of one that was cut may be the beginning of a secret: that is removed, too."""
    if not text.endswith(ELLIPSIS):
        return redactor(text)
    clean = redactor(redactor.known(text.removesuffix(ELLIPSIS), cut=True))
    word = clean[max(clean.rfind(" "), clean.rfind("\n")) + 1 :]
    starts = [at for prefix in TOKEN_PREFIXES if (at := word.find(prefix)) >= 0]
    kept = clean[: len(clean) - len(word) + min(starts)] + "[secret]" if starts else clean
    return f"{kept}{ELLIPSIS}"
