"""The embedded model: a small grammar of plain requests, turned into calls. No API key, no network, no learning."""
