"""Everything of the MCP client that needs the SDK. Importing it is the slowest step of a start, so `Connection` imports
this module in a thread, when the first server is started."""

from mcp import Client
from mcp_types import Implementation
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.mcp.client.flow_control import flow_controlled
from holdfast.mcp.client.http_transport import HttpTransport
from holdfast.mcp.client.server_requests import ServerRequests
from holdfast.mcp.client.stdio_transport import StdioTransport
from holdfast.mcp.client.tool_call import call_tool
from holdfast.mcp.client.tool_list import drop_malformed, list_tools

__all__ = [
    "MODERN_PROTOCOL_VERSIONS",
    "Client",
    "HttpTransport",
    "Implementation",
    "ServerRequests",
    "StdioTransport",
    "call_tool",
    "drop_malformed",
    "flow_controlled",
    "list_tools",
]
