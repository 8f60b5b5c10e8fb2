"""What `holdfast mcp` is made of: serving, looking at servers, and writing into the configuration of MCP clients."""
