"""What agents remember: items in SQLite, found by keywords (FTS5) and by meaning (vectors in numpy)."""
