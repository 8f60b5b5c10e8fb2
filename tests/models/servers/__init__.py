"""Loopback servers that speak the wire formats of model providers."""
