"""The fixture `served`: a daemon and a browser, shared by the tests of a module."""

from tests.serve.browser.served import served, shared_daemon

__all__ = ["served", "shared_daemon"]
