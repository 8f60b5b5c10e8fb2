"""The network gateway: host and address rules, DNS resolution, connections and the proxy for sandboxed commands."""
