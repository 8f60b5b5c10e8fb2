"""File-system primitives on the standard library: open beneath a root, walk, atomic replace, private files, file locks,
protected paths."""
