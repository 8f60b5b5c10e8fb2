"""MCP servers as sources of governed tools: connections, transports, and definitions that a person has reviewed."""
