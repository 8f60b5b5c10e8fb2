"""`web.fetch` and `web.search`: requests through the network gateway, and the text of what comes back."""
