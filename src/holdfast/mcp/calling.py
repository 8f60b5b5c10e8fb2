"""One call of a tool at a server: its answer, its refusal, or the admission that nobody knows what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, URL_ELICITATION_REQUIRED
from pydantic import ValidationError

from holdfast.contract.result import Result, fail
from holdfast.contract.values import Args
from holdfast.mcp.content import result_from
from holdfast.runtime.stepping import NoReply

if TYPE_CHECKING:
    from mcp import Client

    from holdfast.runtime.context import RunContext
    from holdfast.runtime.runtime import Runtime

MAX_PROGRESS: Final = 4 * 1024
MAX_ERROR: Final = 16 * 1024
_SDK_LOST: Final = {
    CONNECTION_CLOSED: ("SSE stream", "Connection closed"),
    PARSE_ERROR: ("Failed to parse",),
    INTERNAL_ERROR: ("Server returned an error response",),
}
"""How the SDK words answers that did not come: these are not the server's own errors."""
_SESSION_OVER: Final = "Session terminated"


class Line(Protocol):
    """The connection, as far as a call needs it."""

    @property
    def name(self) -> str: ...
    def fate_of(self, client: Client) -> str: ...
    def end_session(self, reason: str) -> None: ...
    async def visit(self, elicitations: Any) -> str: ...


async def call_tool(client: Client, tool: str, args: Args, ctx: RunContext, runtime: Runtime, line: Line) -> Result:
    """What the server answered. Time and cancelling are the runtime's: the SDK tells the server when this is cancelled.

    Raises `NoReply` when it is not known what came of the call.
    """

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        if not ctx.cancelled:
            ctx.progress((message or "")[:MAX_PROGRESS], progress, total)

    try:
        answer = await client.call_tool(tool, args, progress_callback=None if runtime.events.idle else tell)
    except MCPError as error:
        return await _refused(error, client, line)
    except InputRequiredRoundsExceededError:
        return fail(f"MCP server '{line.name}' asked for input again and again, so that the call was given up.")
    except ValidationError as error:
        raise NoReply(
            f"What MCP server '{line.name}' answered is not what the protocol says ({error.error_count()} faults)"
        ) from None
    return result_from(answer)


async def _refused(error: MCPError, client: Client, line: Line) -> Result:
    code, said = error.code, error.message[:MAX_ERROR]
    if code == INVALID_REQUEST and said == _SESSION_OVER:
        line.end_session("it has ended the session")
        return fail(f"MCP server '{line.name}' has ended the session; another is begun. The call was not carried out.")
    fate = line.fate_of(client) if code == CONNECTION_CLOSED else ""
    if fate or said.startswith(_SDK_LOST.get(code, ())):
        raise NoReply(f"MCP server '{line.name}' gave no answer: {fate or said}") from None
    if code == URL_ELICITATION_REQUIRED:
        data: Any = error.data
        wanted = data.get("elicitations") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return fail(f"{said}: {await line.visit(wanted)}")
    return fail(f"{said or 'The server gave no reason'} (MCP error {code})")
