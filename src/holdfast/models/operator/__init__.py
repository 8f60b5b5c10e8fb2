"""The embedded model: a small grammar of plain requests, turned into calls. No key, no network, nothing learned."""
