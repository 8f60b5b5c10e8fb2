"""MCP servers whose tools become governed tools: connections, transports and what a person has seen of them."""
