"""File-system primitives, standard library only: open beneath a root, walk, write atomically, private files, locks,
protected paths."""
