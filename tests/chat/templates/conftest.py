"""A project with files for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.chat.lua.host import LuaHost
from tests.chat.templates.template_project import TemplateProject


@pytest.fixture
def project(tmp_path: Path, lua: LuaHost) -> TemplateProject:
    return TemplateProject(tmp_path, lua)
