"""Static analysis of shell commands: parses them into parts and applies the command rules. Nothing here runs them."""
