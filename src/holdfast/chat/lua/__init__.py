"""Lua for documents: real Lua in a process of its own, with nothing to reach and little to use up."""
