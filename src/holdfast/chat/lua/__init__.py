"""Lua for documents: real Lua in a separate process without privileges and with tight limits."""
