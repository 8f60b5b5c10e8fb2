"""Builds runtimes and conversations from configuration. The only package that knows all the others."""
