"""The path itself: from a call to its one result."""
