"""ripgrep and our own scan agree: the same files, the same counts, the same output, whatever is in the tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Tool
from holdfast.contract.context import Context
from holdfast.tools.search import searching
from holdfast.tools.search.code_search import CODE_SEARCH
from holdfast.tools.search.engines import Ripgrep, find_ripgrep
from holdfast.tools.search.pattern import Pattern, literal, regular
from holdfast.tools.search.scan import Scan, lines_for
from holdfast.tools.search.scope import SKIPPED_NAMES, Scope
from holdfast.tools.search.walk import Folders, Walk
from tests.runtime.support import approving, run, runtime_in
from tests.soak import rounds
from tests.tools.trees import STARTS, WORDS, plant_tree

pytestmark = pytest.mark.skipif(find_ripgrep(Path("/nowhere")) is None, reason="there is no ripgrep to agree with")
FILES = rounds(5_000, 50_000)
EVERY = rounds(4, 1)
"""Of the queries, which one of how many is asked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    (folder / "project").mkdir()
    plant_tree(folder / "project", FILES)
    return folder


def _queries() -> list[Pattern]:
    """Two hundred: every word by itself, in either case, next to others; and patterns of every kind."""
    plain = [*WORDS, *(f"{start}{word}" for start in STARTS if start.strip() for word in WORDS[:9])]
    pairs = [f"{one} {other}" for one in WORDS[:10] for other in WORDS[3:12]]
    odd = ["é", " ", "\r", "(", "def  ", "\t", "-dash", "nothing like this", ".", "/"]
    folded = ["ALPHA", "Needle", "TODO", "HTTP://", "NAÏVE", "CLASS config"]
    patterns = [
        *(r"\bneedle\b", r"^def \w+", r"config$", r"^\s*$", r"a.b", r"[A-Z]\w+ [a-z]+", r"needle|stack", r"(hay )+"),
        *(r"\d", r"^$", r"x*", r"[^\x20-\x7e]", r"日本+", r"ï", r"\bre\w{4}\b", r"^(pub )?fn"),
        *(r"[[:upper:]]{4}", r"\.b "),
        *(r"(?i)runtime", r"al(ph|eph)a", r"e{2}", r"^.{0,12}$", r"\s\S+\s", r"o$|^T", r"[^a-z ]\r"),
        *(r"f\(x\)", r"p:/+"),
        *(r"(?:a|b)+eta", r"-dash", r"TO?DO", r"\W\W", r"[^e]+e", r"(gamma )*delta"),
    ]
    made = [*map(literal, dict.fromkeys([*plain, *pairs, *odd])), *(literal(word, fold=True) for word in folded)]
    return (made[: 200 - len(patterns)] + [regular(pattern) for pattern in patterns])[:200]


def _own_counts(root: Path, queries: list[Pattern]) -> list[list[tuple[str, int]]]:
    """What the scanning process does, with each file read once for all queries."""
    scans = [Scan(lines_for(query.text, regex=query.regex, fold=query.fold)) for query in queries]
    found: list[list[tuple[str, int]]] = [[] for _ in queries]
    with Folders(str(root)) as folders:
        for path in _files(folders, root):
            opened = folders.open_file(os.fsencode(path))
            with os.fdopen(opened, "rb") as file:
                data = file.read()
            for number, scan in enumerate(scans):
                result = scan.data(data, len(data))
                if result is not None:
                    found[number].append((path, result[0]))
    return found


def _files(folders: Folders, root: Path) -> Iterator[str]:
    walk = Walk(folders, str(root), skipped_names=frozenset(map(os.fsencode, SKIPPED_NAMES)))
    everything = [prefix + name for _, prefix, names in walk.files() for name in names]
    return (os.fsdecode(path) for path in sorted(everything))


@pytest.mark.timeout(240)
@pytest.mark.spec("B2")
def test_both_engines_find_the_same_in_many_files_for_two_hundred_queries(folder: Path) -> None:
    assert len(_queries()) == 200
    queries = _queries()[::EVERY]
    scope = Scope(root=folder / "project", below=b"", is_file=False)
    found: list[list[tuple[str, int]]] = []

    async def ask_ripgrep(args: Any, ctx: Context) -> str:
        program = find_ripgrep(scope.root)
        assert program is not None
        for query in queries:
            found.append(sorted((await Ripgrep(program, ctx).search(query, scope)).hits))
        return "asked"

    asking = Tool(name="ask", execute=ask_ripgrep, effects=frozenset({"fs.read"}), timeout=200.0)
    result = run(runtime_in(folder, asking, config=approving("ask")).call("ask"), 210)
    assert result.success, result.error
    for query, theirs, ours in zip(queries, found, _own_counts(scope.root, queries), strict=True):
        assert sorted(ours) == theirs, query
    assert sum(map(len, found)) > FILES * 2 // EVERY
    assert sum(not hits for hits in found) < 40 // EVERY


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
    monkeypatch.setattr(searching, "find_ripgrep", lambda root: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    without = ask()
    assert with_ripgrep.success, with_ripgrep.error
    assert (with_ripgrep.output, with_ripgrep.structured) == (without.output, without.structured)
    assert "No matches" not in without.output
