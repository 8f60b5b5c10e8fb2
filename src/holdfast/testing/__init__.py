"""Conformance suites and test doubles for programs that build on holdfast. holdfast itself does not import them."""
