"""Expressions, code and file references in what a person writes."""
