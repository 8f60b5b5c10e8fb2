"""ripgrep and the plain scan agree on literal queries: the same files, counts and output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Result, Tool
from holdfast.contract.context import Context
from holdfast.tools.search import engines
from holdfast.tools.search.engines import PlainScan, Ripgrep, find_ripgrep
from holdfast.tools.search.plain_scan import line_matcher
from holdfast.tools.search.scope import Query, SearchScope
from holdfast.tools.search.search import CODE_SEARCH
from tests.runtime.support import approving, run, runtime_in
from tests.soak import rounds
from tests.tools.search.project_trees import STARTS, WORDS, make_large_tree, write_tree

RIPGREP = find_ripgrep(Path("/nowhere")) or ""
pytestmark = pytest.mark.skipif(not RIPGREP, reason="there is no ripgrep to agree with")
FILES = rounds(5_000, 50_000)
EVERY = rounds(16, 1)
"""Which query of how many is run."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    (folder / "project").mkdir()
    make_large_tree(folder / "project", FILES)
    return folder


def _queries() -> list[Query]:
    """Every word alone, in both cases, and next to others."""
    plain = [*WORDS, *(f"{start}{word}" for start in STARTS if start.strip() for word in WORDS[:9])]
    pairs = [f"{one} {other}" for one in WORDS[:10] for other in WORDS[3:12]]
    odd = ["é", " ", "\r", "(", "def  ", "\t", "-dash", "nothing like this", ".", "/"]
    folded = ["ALPHA", "Needle", "TODO", "HTTP://", "NAÏVE", "CLASS config"]
    return [*map(Query, dict.fromkeys([*plain, *pairs, *odd])), *(Query(word, fold=True) for word in folded)]


@pytest.mark.timeout(240)
@pytest.mark.spec("B2")
def test_both_engines_find_the_same_hits_in_many_files(folder: Path) -> None:
    queries = _queries()[::EVERY]
    scope = SearchScope(root=folder / "project", below="", is_file=False)
    found: list[tuple[Query, list[tuple[str, int]], list[tuple[str, int]]]] = []

    async def ask(args: Any, ctx: Context) -> str:
        for query in queries:
            theirs = await Ripgrep(RIPGREP, scope, ctx).count_matches(query)
            ours = await PlainScan(scope, ctx).count_matches(query)
            found.append((query, sorted(theirs.hits), sorted(ours.hits)))
        return "asked"

    asking = Tool(name="ask", execute=ask, effects=frozenset({"fs.read"}), timeout=200.0)
    result = run(runtime_in(folder, asking, config=approving("ask")).call("ask"), 210)
    assert result.success, result.error
    for query, theirs, ours in found:
        assert ours == theirs, query
    assert sum(len(hits) for _, hits, _ in found) > FILES * 2 // EVERY


@given(
    query=st.text(st.sampled_from("aBé .*(\\$\r-"), min_size=1, max_size=4),
    content=st.lists(st.sampled_from(["a", "b", "B", "A", "é", " ", "\n", "\r\n", ".", "-", "("]), max_size=25),
    fold=st.booleans(),
)
@settings(max_examples=rounds(50, 250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.spec("B2")
def test_both_engines_treat_a_literal_query_literally(
    tmp_path: Path, query: str, content: list[str], fold: bool
) -> None:
    data = "".join(content).encode()
    (tmp_path / "file").write_bytes(data)
    flags = ["--no-config", "--no-unicode", "--encoding=none", "--count", "--no-filename", "--fixed-strings"]
    flags += ["--ignore-case"] if fold else []
    done = subprocess.run([RIPGREP, *flags, f"--regexp={query}", "./"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert len(list(line_matcher(query, fold=fold)(data))) == int(done.stdout or 0)


@pytest.mark.parametrize(
    "args",
    [
        {"query": "needle"},
        {"query": "parse_line", "limit": 200},
        {"query": "config", "case": "insensitive", "glob": "*.{py,toml}"},
        {"query": r"^(def|class) \w+ [a-z]+", "regex": True},
        {"query": "needle", "path": "src/core"},
        {"query": r"hay|stack", "regex": True, "path": "lib", "limit": 60},
        {"query": "needle", "path": "build"},
        {"query": "needle", "path": "lib/core"},
        {"query": "needle", "path": "docs/keep"},
    ],
    ids=str,
)
@pytest.mark.spec("B2")
def test_both_engines_give_the_same_result_end_to_end(
    folder: Path, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> Result:
        return run(runtime_in(folder, CODE_SEARCH).call("code.search", args), 60)

    with_ripgrep = ask()
    monkeypatch.setattr(engines, "find_ripgrep", lambda root: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    without = ask()
    assert with_ripgrep.success, with_ripgrep.error
    assert (with_ripgrep.output, with_ripgrep.structured) == (without.output, without.structured)
    assert "No matches" not in without.output


@pytest.mark.spec("B2")
def test_ripgrep_is_looked_up_in_fixed_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    planted = write_tree(root, {"rg": "#!/bin/sh\ntouch planted\n", "bin/rg": "#!/bin/sh\ntouch planted\n"})
    for name in ("rg", "bin/rg"):
        (planted / name).chmod(0o755)
    monkeypatch.setattr(engines, "PROGRAM_FOLDERS", (str(root / "bin"),))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    monkeypatch.chdir(root)
    assert find_ripgrep(root) is None
    monkeypatch.setattr(sys, "prefix", str(root))
    assert find_ripgrep(root) == str(root / "bin" / "rg")
