"""The memory of a runtime: namespaces by policy, shared and own items, provenance, ranking."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

from holdfast import Config, Runtime
from holdfast.contract.call import Caller
from holdfast.contract.memory import Memory
from holdfast.runtime.memory import RuntimeMemory
from holdfast.store.memory.embedders import MiniLM, SmallEncoder
from holdfast.store.memory.items import MemoryStore
from tests.quick import quickly
from tests.runtime.memory_runtime import TOOLS, MemoryRuntime
from tests.runtime.support import run
from tests.soak import rounds
from tests.store.memory.evaluation import Question, evaluation_set, fill
from tests.store.memory.support import WordEmbedder

NARROW: dict[str, Any] = {"memory": {"namespaces": ["public/*"]}}


@pytest.mark.spec("B8c")
def test_an_item_is_found_by_meaning_and_by_keywords_with_both_scores(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path)
    memory.write("The automobile is in the garage")
    memory.write("A puppy sleeps")
    (first, *_) = memory.read("search", query="where is the car?")["hits"]
    assert first["content"] == "The automobile is in the garage"
    assert first["keyword"] == 0 and first["meaning"] == 1 and first["score"] == 0.5
    (first, *_) = memory.read("search", query="garage")["hits"]
    assert first["keyword"] == first["meaning"] == first["score"] == 1


@pytest.mark.spec("B8b")
def test_keyword_only_search_uses_no_vectors(tmp_path: Path) -> None:
    made: list[WordEmbedder] = []
    memory = MemoryRuntime(tmp_path, lambda: made.append(WordEmbedder()) or made[-1])
    memory.write("The automobile is in the garage")
    found = memory.read("search", query="car", keywordOnly=True)
    assert found == {"hits": [], "embedder": "none", "notes": []} and made == []


@pytest.mark.spec("B8c")
def test_without_an_embedder_keywords_decide_and_that_is_said_once(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path, lambda: None)
    memory.write("The automobile is in the garage")
    first, second = (memory.read("search", query="garage") for _ in range(2))
    assert first["embedder"] == "none" and first["hits"][0]["meaning"] is None
    assert "embedder: none" in first["notes"][0] and "pip install 'holdfast[memory]'" in first["notes"][0]
    assert second["notes"] == []
    chosen = MemoryRuntime(tmp_path, lambda: None, {"memory": {"embedder": "none"}})
    assert chosen.read("search", query="garage")["notes"] == [], "a person who chose it need not be told"


@pytest.mark.spec("B8c")
def test_an_embedder_that_cannot_be_loaded_leaves_the_keywords_and_that_is_said_once(tmp_path: Path) -> None:
    class Broken(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> NoReturn:
            raise AttributeError("module 'onnxruntime' has no attribute 'SessionOptions'")

    memory = MemoryRuntime(tmp_path, Broken)
    memory.write("The automobile is in the garage")
    first, second = (memory.read("search", query="garage") for _ in range(2))
    assert [hit["content"] for hit in first["hits"]] == ["The automobile is in the garage"]
    assert first["embedder"] == "none" and second["notes"] == []
    assert "AttributeError: module 'onnxruntime' has no attribute 'SessionOptions'" in first["notes"][0]


@pytest.mark.spec("B8c")
def test_the_less_similar_of_two_good_items_is_not_shown_as_the_worst_there_can_be(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path)
    memory.write("automobile garage")
    memory.write("automobile garage lake")
    first, second = memory.read("search", query="car")["hits"]
    assert (first["content"], second["content"]) == ("automobile garage", "automobile garage lake")
    assert 0.5 < second["similarity"] < first["similarity"] < 0.9
    assert 0 < second["meaning"] < first["meaning"] == 1
    told = memory.call("search", query="car").output
    assert f"(keywords 0.00, meaning 1.00 (similarity {first['similarity']:.2f}))" in told


@pytest.mark.spec("B8c")
@pytest.mark.skipif(not all(map(find_spec, MiniLM.modules)), reason="holdfast[memory] is not installed")
def test_a_search_for_something_else_finds_nothing(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path, MiniLM)
    memory.write("a note")
    assert memory.found("zebra crossing") == []


@pytest.mark.spec("B8a")
def test_items_of_both_files_are_listed_newest_first_on_every_page(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path, config={"memory": {"shared": ["team/all"]}})
    for number in range(6):
        memory.write(f"item {number}", "team/all" if number % 2 else "team/own")
    pages = [memory.read("list", namespace="team", limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [item["summary"] for page in pages for item in page["items"]] == [f"item {5 - n}" for n in range(6)]
    assert {page["total"] for page in pages} == {6}


@pytest.mark.spec("B8a")
def test_the_runtime_writes_the_provenance_and_no_argument_can(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path)
    caller = Caller(interface="mcp", agent="fast", provider="acme", session="s-1", skill=None)
    memory.write("fact", caller=caller)
    (item,) = memory.read("read", namespace="notes")["items"]
    told = {name: item["provenance"][name] for name in ("interface", "agent", "provider", "session")}
    assert told == {"interface": "mcp", "agent": "fast", "provider": "acme", "session": "s-1"}
    assert item["provenance"]["call"].startswith(memory.runtime.session)
    forged = memory.call("write", namespace="notes", content="x", provenance={"interface": "person"})
    assert forged.exit_code == 2 and "provenance" in (forged.error or "")


@pytest.mark.spec("B8e")
def test_a_namespace_that_is_not_allowed_is_refused_and_not_described(tmp_path: Path) -> None:
    wide = MemoryRuntime(tmp_path)
    secret = wide.write("the secret word", "private/keys")
    open_id = wide.write("the public word", "public/a")
    narrow = MemoryRuntime(tmp_path, config=NARROW)
    told = {narrow.call("read", namespace=name).error for name in ("private/keys", "private/nothing")}
    assert {text.replace("nothing", "keys") for text in told if text} == {
        "The namespace 'private/keys' is not allowed here (memory.namespaces). Use another one."
    }
    assert narrow.call("write", namespace="private/keys", content="x").error in told
    assert narrow.call("search", query="word", namespace="private/keys").error in told
    assert narrow.found("word") == narrow.found("secret word") == ["the public word"]
    assert narrow.found(secret, keywordOnly=True) == [] and "the secret word" not in narrow.found(secret)
    assert narrow.found(open_id) == ["the public word"]
    assert [each["namespace"] for each in narrow.read("list")["namespaces"]] == ["public/a"]
    gone, never = narrow.call("forget", id=secret), narrow.call("forget", id="aaaaaaaaaaaa")
    assert (gone.error or "").replace(secret, "aaaaaaaaaaaa") == never.error
    assert not narrow.call("write", namespace="public/a", content="x", supersedes=secret).success
    assert wide.found("secret")[0] == "the secret word"


@pytest.mark.spec("B8e")
def test_a_namespace_that_appears_during_a_search_is_not_searched_unless_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemoryRuntime(tmp_path)
    memory.write("the secret word", "private")
    memory.write("the public word", "public/a")
    scope = MemoryStore.scope

    def late_scope(store: MemoryStore, *_: object) -> list[int]:
        return scope(store, lambda _: True)

    monkeypatch.setattr(MemoryStore, "scope", late_scope)
    assert MemoryRuntime(tmp_path, config=NARROW).found("word") == ["the public word"]


@pytest.mark.spec("B8e")
def test_an_agent_or_a_provider_can_be_limited_to_namespaces(tmp_path: Path) -> None:
    layers = {"agents": {"helper": {"namespaces": ["team/*"]}}, "providers": {"acme": {"namespaces": ["team/a"]}}}
    memory = MemoryRuntime(tmp_path, config={"tools": layers})
    memory.write("word one", "own")
    memory.write("word two", "team/a")
    memory.write("word three", "team/b")
    helper, both = Caller(agent="helper"), Caller(agent="helper", provider="acme")
    assert set(memory.found("word", helper)) == {"word two", "word three"}
    assert memory.found("word", both) == ["word two"]
    assert "not allowed here" in (memory.call("write", both, namespace="team/b", content="x").error or "")


@pytest.mark.spec("B8e")
def test_shared_namespaces_are_common_to_all_projects_and_the_others_are_not(tmp_path: Path) -> None:
    shared = {"memory": {"shared": ["user/*"]}}
    one = MemoryRuntime(tmp_path, config=shared, project="one")
    two = MemoryRuntime(tmp_path, config=shared, project="two")
    own = one.write("a word of project one", "project/notes")
    common = one.write("a word about the user", "user/profile")
    assert two.found("word") == ["a word about the user"]
    assert set(one.found("word")) == {"a word of project one", "a word about the user"}
    assert [(each["namespace"], each["shared"]) for each in one.read("list")["namespaces"]] == [
        ("project/notes", False),
        ("user/profile", True),
    ]
    told = one.call("write", namespace="user/profile", content="moved", supersedes=own).error
    assert "one of the two is shared by all projects" in (told or "")
    assert two.write("a new word", "user/profile", supersedes=common)
    assert one.found("new word")[0] == "a new word"
    unshared = MemoryRuntime(tmp_path, project="one")
    assert unshared.found("word") == ["a word of project one"], "a namespace that is no longer shared stays where it is"


@pytest.mark.spec("B8a")
def test_a_superseded_item_is_marked_and_ranks_behind_its_successor(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path)
    old = memory.write("The release is on Wednesday")
    new = memory.write("Now it happens on the first Monday, the release", supersedes=old)
    hits = memory.read("search", query="release Wednesday")["hits"]
    assert [(hit["id"], hit["superseded_by"]) for hit in hits] == [(new, None), (old, new)]
    newest = memory.write("We do it quarterly", supersedes=new)
    hits = memory.read("search", query="release Wednesday", keywordOnly=True)["hits"]
    assert [hit["id"] for hit in hits] == [newest, old, new], "the current version answers a match of any older one"
    memory.call("forget", id=newest)
    assert newest not in [hit["id"] for hit in memory.read("search", query="release Wednesday")["hits"]]


@pytest.mark.spec("B8b")
def test_an_id_finds_its_item(tmp_path: Path) -> None:
    memory = MemoryRuntime(tmp_path)
    first = memory.write("one")
    memory.write("two")
    assert memory.found(first, limit=1) == ["one"] and memory.found(first, namespace="other") == []


@pytest.mark.spec("B8f")
@pytest.mark.parametrize("embedder", [WordEmbedder, lambda: None])
def test_a_huge_query_or_content_is_refused_at_once(tmp_path: Path, embedder: Any) -> None:
    memory = MemoryRuntime(tmp_path, embedder)
    memory.write("x")
    huge = "word " * 2_000_000
    with quickly(10):
        told = memory.call("search", query=huge).error
        assert told == "The query has 10,000,000 characters; use at most 2,000."
        told = memory.call("write", namespace="notes", content=huge).error or ""
        assert told.startswith("The content has 9.5MB; an item can have 64.0KB (memory.max_item_bytes)")
    assert memory.read("list", namespace="notes")["total"] == 1


@pytest.mark.spec("B8c")
def test_a_search_says_how_many_items_have_no_vector_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryRuntime(tmp_path)
    memory.write("one")
    store = memory.memory._own  # pyright: ignore[reportPrivateUsage]
    found = store.candidates

    def some_missing(*args: Any) -> Any:
        from msgspec.structs import replace

        return replace(found(*args), missing=1234)

    monkeypatch.setattr(store, "candidates", some_missing)
    (note,) = memory.read("search", query="one")["notes"]
    assert note.startswith("1,234 items are not embedded yet")


def _first_ranks(folder: Path, embedder: Any, keyword_only: bool) -> tuple[list[Question], list[int]]:
    """Return the questions and the rank of the first expected item; 99 if it is not among the first 50."""
    store = MemoryStore(folder / "own.db")
    questions = fill(store, evaluation_set())
    store.close()
    config = Config()
    runtime = Runtime(tools=TOOLS, config=config)
    memory = RuntimeMemory(
        config.memory, config.tools, own=store.path, shared=folder / "s.db", embedder=lambda: embedder
    )
    runtime.services.offer(Memory, memory)
    if embedder is not None:
        index = memory._own._vector_index()  # pyright: ignore[reportPrivateUsage]
        assert index.catch_up(embedder, limit=1000, seconds=600) == 0

    async def ask() -> list[int]:
        ranks: list[int] = []
        for question in questions:
            args = {"query": question.text, "limit": 50, "keywordOnly": keyword_only}
            found: Any = (await runtime.call("memory.search", args)).structured
            assert found["notes"] == [] or keyword_only
            ids = [hit["id"] for hit in found["hits"]]
            ranks.append(next((at for at, each in enumerate(ids, 1) if each in question.expected), 99))
        return ranks

    ranks = run(ask(), 240)
    memory.close()
    return questions, ranks


def _rate(questions: list[Question], ranks: list[int], kind: str, at: int) -> float:
    chosen = [rank for question, rank in zip(questions, ranks, strict=True) if kind in (question.kind, "all")]
    return sum(rank <= at for rank in chosen) / len(chosen)


@pytest.mark.spec("B8c")
@pytest.mark.parametrize(("kind", "floor"), [(MiniLM, 0.90), (SmallEncoder, 0.86)][: rounds(1, 2)])
def test_hybrid_search_is_at_least_as_good_as_keywords_on_every_kind_of_question(
    tmp_path: Path, kind: Any, floor: float
) -> None:
    if not all(map(find_spec, kind.modules)):
        pytest.skip(f"holdfast[{kind.extra}] is not installed")
    (tmp_path / "k").mkdir()
    questions, hybrid = _first_ranks(tmp_path, kind(), False)
    _, keywords = _first_ranks(tmp_path / "k", None, True)
    kinds = {question.kind for question in questions} - {"forgotten"}
    assert len(kinds) == 6
    for each in kinds:
        for at in (1, 5):
            assert _rate(questions, hybrid, each, at) >= _rate(questions, keywords, each, at), (each, at)
    assert _rate(questions, hybrid, "all", 5) >= floor
    assert _rate(questions, keywords, "identifiers", 1) == _rate(questions, hybrid, "identifiers", 1) == 1
    assert {r for q, r in zip(questions, hybrid, strict=True) if q.kind == "forgotten"} == {99}
