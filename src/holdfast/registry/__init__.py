"""Which tools exist: registration, handles, sources, entry points, selection, lists for providers."""
