"""The fixture `browsing`: a real browser, shared by all tests."""

from tests.tools.browser.browsing import browsing, shared_browsing

__all__ = ["browsing", "shared_browsing"]
