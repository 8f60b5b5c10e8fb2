"""Parsing of English requests: literals, names, sentences and phrase patterns."""
