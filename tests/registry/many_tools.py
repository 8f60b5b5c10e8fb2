"""Generates many tools, as from a dozen servers."""

from __future__ import annotations

from typing import Any

from holdfast import Tool
from holdfast.contract.schema import JsonSchema

SERVERS = ("github", "gitlab", "jira", "slack", "notion", "linear", "stripe", "postgres", "datadog", "drive")
VERBS = ("get", "list", "create", "update", "delete", "archive", "restore", "assign", "export", "share")
NOUNS = (
    "issue", "pull_request", "repository", "branch", "release", "file", "folder", "document", "page", "event",
    "message", "channel", "user", "team", "project", "task", "board", "invoice", "customer", "order",
)  # fmt: skip


async def _execute(args: Any) -> str:
    return "done"


def schema(**parameters: str) -> JsonSchema:
    properties = {name: {"type": "string", "description": said} for name, said in parameters.items()}
    return {"type": "object", "properties": properties}


def many_tools(count: int) -> list[Tool]:
    """Return tools `mcp:github:get_issue`, `mcp:gitlab:get_issue`, …; above 2,000 their names have numbers."""
    made: list[Tool] = []
    for number in range(count):
        rest, server = divmod(number, len(SERVERS))
        rest, verb = divmod(rest, len(VERBS))
        again, noun = divmod(rest, len(NOUNS))
        what = NOUNS[noun].replace("_", " ")
        made.append(
            Tool(
                name=f"mcp:{SERVERS[server]}:{VERBS[verb]}_{NOUNS[noun]}{f'_{again}' if again else ''}",
                description=f"{VERBS[verb].capitalize()} one {what} of a workspace, with all that belongs to it.",
                input_schema=schema(
                    id=f"The number or the full name of the {what}.",
                    fields="Which fields come back; all of them if none is given.",
                    limit="How many results a page has at most.",
                ),
                effects=frozenset(),
                source=f"mcp:{SERVERS[server]}",
                execute=_execute,
            )
        )
    return made
