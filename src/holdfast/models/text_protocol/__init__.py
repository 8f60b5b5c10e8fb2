"""Calls as plain text, for models that can only write."""
