"""The fixture `browsing`: a real browser, shared by the tests of a module."""

from tests.tools.browser.browsing import browsing, shared_browsing

__all__ = ["browsing", "shared_browsing"]
