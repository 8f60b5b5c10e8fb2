"""Tool calls as plain text, for models without native tool calls."""
