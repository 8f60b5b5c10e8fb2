"""MCP in both directions: servers as sources of tools (`client`), and holdfast as a server (`server`)."""
