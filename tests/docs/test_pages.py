"""The pages for newcomers: their commands run, their configuration loads, and the index names every page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.root import holdfast
from holdfast.config.layers import load
from holdfast.rules.from_config import CommandRules
from tests.cli.test_root import parse
from tests.docs.programs import ROOT, blocks_of

DOCS = ROOT / "docs"
GUIDE = DOCS / "getting-started.md"
MEMORY = DOCS / "memory.md"
CRON, GOOGLE, K8S, MEDIA, NOTIFY, STORAGE = (
    DOCS / f"{name}.md" for name in ("cron", "google", "k8s", "media", "notify", "storage")
)
CONFIGURED = [
    CRON, GUIDE, GOOGLE, K8S, MEDIA, DOCS / "migrating.md", DOCS / "network.md", MEMORY, NOTIFY, STORAGE,
    DOCS / "web.md",
]  # fmt: skip
TABLES = [
    pytest.param(block.text, id=f"{page.name}:{block.line}")
    for page in CONFIGURED
    for block in blocks_of(page)
    if block.language == "toml"
]


@pytest.mark.parametrize("text", TABLES)
def test_configuration_on_a_page_loads_without_a_warning(text: str, tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text(text)
    loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=tmp_path / "user.toml")
    CommandRules(loaded.config.approval).check()
    assert list(loaded.notices) == []


def _commands(page: Path) -> Iterator[str]:
    for block in blocks_of(page):
        if block.language == "sh" and not block.text.startswith("pip install"):
            yield from (line.partition("  #")[0].partition(" # ")[0].strip() for line in block.text.splitlines())


@pytest.mark.spec("E1a", "E1b")
def test_the_commands_of_getting_started_work_in_order(tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
    }
    folder = tmp_path / "demo"
    ends: dict[str, int] = {}
    printed: dict[str, str] = {}
    for line in _commands(GUIDE):
        if line.startswith("holdfast doctor"):
            continue  # attacks the sandbox for some seconds; its own tests run it
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder if folder.exists() else tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        ends[line], printed[line] = done.returncode, done.stdout + done.stderr
    failed = {line: printed[line] for line, code in ends.items() if code}
    pending = "holdfast call --pending shell.exec command='wc -l notes.txt > count.txt'"
    assert set(failed) == {pending} and ends[pending] == 4, failed
    assert printed["holdfast call file.read path=notes.txt"].startswith("hello")
    assert "notes.txt" in printed["cat count.txt"]
    assert not (folder / "count.txt").exists(), "undo takes back the last change"


@pytest.mark.parametrize(
    ("page", "least"),
    [(CRON, 6), (MEMORY, 8), (STORAGE, 6), (GOOGLE, 8), (NOTIFY, 2)],
    ids=["cron", "memory", "storage", "google", "notify"],
)
def test_the_commands_of_a_guide_are_understood(page: Path, least: int) -> None:
    lines = list(_commands(page))
    assert len(lines) >= least
    for line in lines:
        program, *words = shlex.split(line)
        assert parse(holdfast, program, words).command.name


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "index.md").read_text()))
    pages = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert pages <= linked, pages - linked


def test_the_index_of_design_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "design" / "index.md").read_text()))
    pages = {page.name for page in (DOCS / "design").glob("*.md")} - {"index.md"}
    assert pages == {name for name in linked if os.sep not in name and name.endswith(".md")}


@pytest.mark.parametrize("page", sorted((DOCS / "design").glob("*.md")), ids=lambda page: page.stem)
def test_lines_of_a_design_page_have_at_most_120_characters(page: Path) -> None:
    long = [
        number
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 120 and not line.startswith("|") and "](" not in line
    ]
    assert long == []


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), ROOT / "bench" / "README.md", ROOT / "tests" / "README.md", *DOCS.rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:|<)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)(?:\.py)?(?:\.([A-Za-z_]+))?(?:\.[a-z_]+)?`")


def test_the_architecture_page_names_modules_and_names_that_exist() -> None:
    package = ROOT / "src" / "holdfast"
    found = NAMED.findall((DOCS / "architecture.md").read_text())
    assert len(found) > 60
    for path, name in found:
        module = package / f"{path}.py"
        if path.startswith("tests/"):
            assert list(ROOT.glob(f"{path}.*")), path
        elif module.exists():
            assert not name or re.search(rf"\b(def|class) {name}\b", module.read_text()), f"{path}.{name}"
        else:
            assert (package / path).is_dir() and not name, path
