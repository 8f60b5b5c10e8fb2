"""Templates and file references in user text."""
