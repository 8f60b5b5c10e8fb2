"""Every Python program in the guides runs and prints what the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.model_server import model_server
from tests.docs.programs import ROOT, Program, programs_of, run_program

PAGES = [ROOT / "docs" / "python.md", ROOT / "docs" / "writing-tools.md"]
PROGRAMS = [pytest.param(program, id=f"{page.name}:{program.line}") for page in PAGES for program in programs_of(page)]


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with model_server() as url:
        yield url


@pytest.mark.spec("T2")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_a_guide_prints_what_the_page_shows(program: Program, tmp_path: Path, model_url: str) -> None:
    environment = {
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": model_url,
    }
    printed, errors = run_program(program.source, tmp_path, environment)
    assert errors == ""
    assert printed == program.printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_guide_has_programs(page: Path) -> None:
    assert len(programs_of(page)) >= 5
