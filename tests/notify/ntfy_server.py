"""A loopback server that speaks ntfy's publish protocol: JSON to `/`, topics that need a token, errors as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.tools.web.site import Page, Reply, Seen

_KEYS = {"topic", "title", "message", "priority", "click", "tags", "actions", "attach", "markdown", "icon"}


@dataclass
class NtfyTopics:
    """`pages` serves it with `tests.tools.web.site`."""

    tokens: dict[str, str] = field(default_factory=dict[str, str])
    """The access token of each protected topic."""
    published: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def pages(self) -> dict[str, Page]:
        return {"/": self._publish, "/ntfy/": self._publish}

    def _publish(self, seen: Seen) -> Reply:
        try:
            message = json.loads(seen.body)
        except ValueError:
            return _problem(40024, 400, "invalid request: request body must be valid JSON")
        if seen.method not in ("POST", "PUT") or not set(message) <= _KEYS or not message.get("topic"):
            return _problem(40009, 400, "invalid request: topic invalid")
        token = self.tokens.get(message["topic"])
        if token is not None and seen.headers.get("authorization") != f"Bearer {token}":
            return _problem(40301, 403, "forbidden")
        if len(message.get("message", "").encode()) > 4096:
            return _problem(41301, 413, "message too large")
        self.published.append(message)
        return Reply(json.dumps({"id": "hwQ2YpKdmg", "event": "message", **message}), "application/json")


def _problem(code: int, status: int, error: str) -> Reply:
    return Reply(json.dumps({"code": code, "http": status, "error": error}), "application/json", status)
