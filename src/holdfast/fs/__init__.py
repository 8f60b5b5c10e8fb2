"""File-system primitives on the standard library: open beneath a root, walk, replace, private files, locks."""
