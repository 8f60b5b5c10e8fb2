"""Builds runtimes and chat sessions from configuration. The only package that imports all the others."""
