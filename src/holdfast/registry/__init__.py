"""The tool registry: registration, asynchronous sources, entry points, selection, provider lists, tool search."""
