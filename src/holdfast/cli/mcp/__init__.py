"""The subcommands of `holdfast mcp`, one module each."""
