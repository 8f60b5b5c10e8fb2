from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.chat.frontmatter import flemma_options
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.chat.templates.expansion import ExpansionScope, FileAccess, expand
from holdfast.config.config import Config
from holdfast.contract.message import Text
from tests.chat.frontmatter.frontmatter_project import FrontmatterProject, config_of, tools_of, without_diagnostics

GUIDE = (Path(__file__).parents[3] / "docs" / "frontmatter.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SNIPPETS = [(language, code) for language, code in BLOCKS if language != "text"]


@pytest.mark.spec("D6")
@pytest.mark.parametrize(("language", "code"), SNIPPETS, ids=range(len(SNIPPETS)))
def test_every_frontmatter_snippet_of_the_guide_works(lua: LuaHost, tmp_path: Path, language: str, code: str) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(evaluate(language, code, project.baseline(), lua))
    expected = "ask approve" if document.approve is None and language == "lua" else "approve approve"
    if document.approve is not None:
        assert project.verdicts(document, trusted=True, calls="rm") == "deny"
    else:
        assert project.verdicts(document, trusted=True, calls="write bash") == expected
        assert config_of(document, project, trusted=True).model.thinking in ("medium", "low")
        chosen = tools_of(document)
        assert chosen is not None and "calculator" not in chosen


@pytest.mark.spec("D8")
def test_the_template_of_the_guide_expands_as_documented(lua: LuaHost, tmp_path: Path) -> None:
    template, becomes = (code for language, code in BLOCKS if language == "text")
    [toml] = [code for language, code in BLOCKS if language == "toml"]
    project = FrontmatterProject(tmp_path)
    found = without_diagnostics(evaluate("toml", toml, project.baseline(), lua))
    files = FileAccess.of(Config(), document=project.root / "t.chat", root=project.root)
    assert expand(template, ExpansionScope(files=files, lua=lua, frontmatter=found)).parts == (Text(becomes),)


@pytest.mark.spec("D6", "D7")
def test_the_guide_names_every_option() -> None:
    table = GUIDE.partition("| option | |")[2].partition("\n\n")[0]
    named = {option for group in re.findall(r"`([\w. ]+)`", table) for option in group.split()}
    options = {".".join(path[:2]) for path in flemma_options.SCALARS if path[0] != "sandbox"}
    assert options | {"tools", "tools.auto_approve", "tools.presets", "model", "provider", "sandbox"} <= named
