"""Conformance suites and doubles for tests of programs that build on holdfast. Nothing in holdfast imports them."""
