"""`holdfast help`; and no message names a page or a command that is not installed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

import holdfast
from holdfast.cli.commands.help import topics
from holdfast.cli.root import COMMANDS
from tests.cli.command_line import Cli
from tests.syntax import nodes_of

pytestmark = pytest.mark.spec("E1f")
ROOT = Path(__file__).parents[3]
SOURCES = Path(holdfast.__file__).parent


def messages() -> Iterator[tuple[str, str]]:
    """Yield every string of the program with its module; of docstrings only those of commands, which are help texts."""
    for path in sorted(SOURCES.rglob("*.py")):
        nodes = nodes_of(path)
        has_help = path.parent.parent.name == "cli"  # cli/commands, cli/chat and cli/mcp
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr) and not has_help}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield str(path.relative_to(SOURCES)), node.value


def test_every_topic_is_a_page_of_the_docs_and_is_in_the_wheel(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with ZipFile(wheel) as packed:
        for name, page in topics().items():
            written = (ROOT / "docs" / f"{name}.md").read_bytes()
            assert page.read_bytes() == written == packed.read(f"holdfast/cli/topics/{name}.md")
            assert written.startswith(b"# ")
    assert {"browser", "chat", "config", "frontmatter", "mcp", "models", "network", "web"} <= set(topics())


def test_messages_name_only_topics_and_commands_that_are_installed() -> None:
    named = {"help": 0, "command": 0}
    for module, text in messages():
        assert module in _NOT_SHOWN or not re.search(r"docs/[\w/-]+\.md|see (the )?README", text), (module, text)
        for topic in re.findall(r"holdfast help ([a-z]+)|\]\(([\w-]+)\.md", text):
            named["help"] += 1
            assert module in _NOT_SHOWN or "".join(topic) in topics(), (module, text)
        for command in re.findall(r"`holdfast ([a-z]+)", text):
            named["command"] += 1
            assert command in COMMANDS, (module, text)
    assert named["help"] >= 3 and named["command"] > 50


_NOT_SHOWN = {"cli/reference.py", "fs/protected_list.py", "serve/openapi.py"}
"""Modules whose texts are not messages: the generators of references, and the list of protected files."""


def test_the_topics_are_listed_read_whole_or_by_section_and_guessed(cli: Cli) -> None:
    assert [line.split()[0] for line in cli.run("help").out.splitlines()] == list(topics())
    page = cli.run("help", "mcp")
    assert page.out.startswith("# MCP\n") and "](config.md)" not in page.out
    assert page.err == "For the command's options, run `holdfast mcp --help`.\n"
    part = cli.run("help", "config", "confirmation").out
    assert part.startswith("### `[confirmation]`\n") and "confirmation.autonomy" in part and "sandbox.mode" not in part
    assert "Did you mean 'models'?" in cli.run("help", "model").sentence
    assert "`holdfast call --help`" in cli.run("help", "call").sentence
    unknown = cli.run("help", "config", "nowhere")
    assert unknown.code == 2 and "It has: Layers, Limits of the machine, Trust, Lists, " in unknown.sentence
