"""The fixture of tests with an opened document."""

from __future__ import annotations

from tests.factory.conftest import chat_project

__all__ = ["chat_project"]
