"""The public JSON-Schema-Test-Suite, drafts 2020-12 and 7. `make test` downloads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.contract.errors import InvalidSchema
from holdfast.contract.schema import compile_schema_or_bool

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv"
SUITE = next(iter(sorted(ENVIRONMENT.glob("json-schema-test-suite-*/tests"))), ENVIRONMENT / "missing").parent
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
MANDATORY = {"draft2020-12": 1257, "draft7": 913}
OPTIONAL = {"draft2020-12": 158, "draft7": 552}
"""Without `format` in 2020-12, where it is an annotation by default."""


class Check(NamedTuple):
    file: str
    about: str
    schema: Any
    data: Any
    valid: bool


def checks(draft: str, *, optional: bool) -> Iterator[Check]:
    folder = SUITE / "tests" / draft
    for path in sorted((folder / "optional").rglob("*.json") if optional else folder.glob("*.json")):
        if optional and draft == "draft2020-12" and path.parent.name == "format":
            continue
        for case in json.loads(path.read_text()):
            for test in case["tests"]:
                about = f"{case['description']}: {test['description']}"
                yield Check(path.stem, about, _of_draft(case["schema"], draft), test["data"], test["valid"])


@cache
def remotes() -> dict[str, Any]:
    """Return the schemas that the suite expects at its own URL, where no server runs."""
    folder = SUITE / "remotes"
    return {
        f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(path.read_text())
        for path in folder.rglob("*.json")
    }


def outcome(check: Check) -> bool | str:
    try:
        compiled = compile_schema_or_bool(check.schema, "The schema", resources=remotes())
    except InvalidSchema as error:
        return str(error)
    return compiled.accepts(check.data)


def _of_draft(schema: Any, draft: str) -> Any:
    """Add `$schema`, which the suite's schemas of older drafts lack."""
    return schema if isinstance(schema, bool) or "$schema" in schema else {"$schema": DRAFTS[draft], **schema}


@pytest.mark.spec("S2")
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("optional", [False, True], ids=["mandatory", "optional"])
def test_every_test_of_the_suite_has_its_expected_outcome(draft: str, optional: bool) -> None:
    assert (SUITE / "remotes").is_dir(), "The JSON-Schema-Test-Suite is not here; `make pytest` fetches it."
    found = [*checks(draft, optional=optional)]
    wrong = [f"{check.file}: {check.about}: {got}" for check in found if (got := outcome(check)) is not check.valid]
    assert wrong == []
    assert len(found) == (OPTIONAL if optional else MANDATORY)[draft]


@pytest.mark.spec("S2")
@pytest.mark.parametrize("draft", DRAFTS)
def test_every_invalid_value_of_the_suite_is_explained(draft: str) -> None:
    for check in checks(draft, optional=False):
        if not check.valid:
            violations = compile_schema_or_bool(check.schema, "The schema", resources=remotes()).violations(check.data)
            assert violations, check
            assert all(0 < len(sentence) < 1000 for sentence in violations), check
