"""A document opened whole: frontmatter, trust, runtime, model and loop together, on real files and the real tools."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.config.layers import LoadedConfig
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.factory.chat import open_chat, review_trust
from tests.agent.scripted import Scripted, said, use
from tests.factory.places import Place, results
from tests.runtime.support import run

ALLOWS_SHELL = "```lua\nflemma.opt.tools.auto_approve = { '$default', 'bash' }\n```\n"


def echoing() -> Scripted:
    return Scripted(said(use("a", "shell.exec", '{"command": "echo hello > made.txt"}')))


@pytest.mark.spec("A2", "D6")
def test_frontmatter_that_loosens_counts_only_after_a_person_trusted_exactly_it(place: Place) -> None:
    place.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    outcome, untrusted = place.drive(echoing(), lambda chat: chat.untrusted)
    assert outcome.kind == "pending" and untrusted == ("approval.auto_approve",)
    assert not (place.root / "made.txt").exists()

    place.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    place.trust()
    outcome, untrusted = place.drive(echoing(), lambda chat: chat.untrusted)
    assert outcome.kind == "done" and untrusted == ()
    assert (place.root / "made.txt").read_text() == "hello\n"

    place.write(f"{ALLOWS_SHELL.replace('bash', 'shell.exec')}@You:\nGo.\n")
    assert place.drive(echoing())[0].kind == "pending"


@pytest.mark.spec("A2", "D6")
def test_trust_in_one_document_is_not_trust_in_a_copy_of_it(place: Place) -> None:
    place.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    place.trust()
    place.document = place.root / "copy.chat"
    place.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    assert place.drive(echoing())[0].kind == "pending"


@pytest.mark.spec("A2")
def test_untrusted_frontmatter_tightens_at_once(place: Place) -> None:
    place.write("```toml\n[approval]\nauto_approve = ['$readonly']\n```\n@You:\nGo.\n")
    model = Scripted(said(use("a", "file.write", '{"path": "a.txt", "content": "x"}')))
    assert place.drive(model)[0].kind == "pending"
    assert not (place.root / "a.txt").exists()


@pytest.mark.spec("U4", "D6")
def test_rules_tightened_while_a_turn_runs_hold_for_the_next_call(place: Place) -> None:
    text = place.write("@You:\nGo.\n")

    def tighten() -> None:
        found = text.read_text()
        text.write_text(f"```toml\n[approval]\nauto_approve = []\n```\n{found}")

    class Meddling(Scripted):
        async def stream(self, *args: object, **more: object):  # type: ignore[no-untyped-def, override]
            if len(self.asked) == 1:
                tighten()
            async for event in super().stream(*args, **more):  # type: ignore[arg-type]
                yield event

    writing = '{"path": "%s", "content": "x"}'
    model = Meddling(
        said(use("a", "file.write", writing % "one.txt")), said(use("b", "file.write", writing % "two.txt"))
    )
    outcome, _ = place.drive(model)
    assert outcome.kind in ("stale", "conflict")
    assert (place.root / "one.txt").exists() and not (place.root / "two.txt").exists()
    assert place.drive(Scripted(said(use("b", "file.write", writing % "two.txt"))))[0].kind == "pending"
    assert not (place.root / "two.txt").exists()


@pytest.mark.spec("R8")
def test_a_document_chooses_its_tools_and_others_are_neither_shown_nor_run(place: Place) -> None:
    (place.root / "notes.txt").write_text("hello")
    place.write('```lua\nflemma.opt.tools = {"read", "calculator"}\n```\n@You:\nGo.\n')
    model = Scripted(
        said(use("a", "file.read", '{"path": "notes.txt"}'), use("b", "file.list", "{}"), use("c", "bash", "{}"))
    )
    assert place.drive(model)[0].kind == "done"
    assert model.tools[0] == ["calculator", "file.read"]
    assert [(result.id, result.error) for result in results(model)] == [("a", False), ("b", True), ("c", True)]
    assert "is not allowed by tool policy" in results(model)[1].output


@pytest.mark.spec("R8")
def test_only_a_trusted_document_switches_on_a_tool_that_is_off(place: Place) -> None:
    text = '```lua\nflemma.opt.tools:append("calculator_async")\n```\n@You:\nGo.\n'
    place.write(text)
    model = Scripted()
    place.drive(model)
    assert "calculator_async" not in model.tools[0]
    place.write(text)
    place.trust()
    model = Scripted()
    place.drive(model)
    assert "calculator_async" in model.tools[0]


@pytest.mark.spec("P4")
def test_the_layer_of_the_models_provider_narrows_the_tools_of_the_conversation(place: Place) -> None:
    config = place.root.parent / "config" / "holdfast"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[tools.providers.scripted]\nallow = ['calculator']\n")
    place.write("@You:\nGo.\n")
    model = Scripted()
    place.drive(model)
    assert model.tools[0] == ["calculator"]


@pytest.mark.spec("D6", "R6")
def test_frontmatter_with_a_mistake_is_named_with_its_line_and_nothing_is_touched(place: Place) -> None:
    before = '```lua\nlocal a = 1\nflemma.opt.tools.auto_approve = { "raed" }\n```\n@You:\nGo.\n'
    place.write(before)
    model = echoing()
    with pytest.raises(ConfigError, match=r"talk\.chat:3: .*unknown value 'raed'\. Did you mean 'read'\?"):
        place.drive(model)
    assert model.asked == [] and place.document.read_text() == before


@pytest.mark.spec("U6")
def test_a_document_that_is_driven_cannot_be_opened_by_another(place: Place) -> None:
    place.write("@You:\nGo.\n")

    async def session() -> None:
        async with open_chat(place.document, model=Scripted()):
            with pytest.raises(HoldfastError, match="is in use by"):
                async with asyncio.timeout(30), open_chat(place.document, model=Scripted()):
                    pass

    run(session())


@pytest.mark.spec("D8")
def test_files_and_expressions_in_a_persons_words_reach_the_model_and_those_in_a_result_do_not(place: Place) -> None:
    (place.root / "notes.txt").write_text("eggs {{ 1 + 1 }} @./secret.txt")
    (place.root / "secret.txt").write_text("do not tell")
    place.write('```json\n{"who": "Ann"}\n```\n@You:\nFor {{ who }}: {{ 6 * 7 }} @./notes.txt\n')
    model = Scripted(said(use("a", "file.read", '{"path": "notes.txt"}')))
    place.drive(model)
    sent = model.asked[0][-1].text
    assert "For Ann: 42" in sent and "eggs {{ 1 + 1 }} @./secret.txt" in sent and "do not tell" not in sent
    assert results(model)[0].output == "eggs {{ 1 + 1 }} @./secret.txt"


@pytest.mark.spec("E1c")
def test_a_review_says_what_trusting_a_frontmatter_would_change(place: Place) -> None:
    def approved(loaded: LoadedConfig) -> object:
        return loaded.config.approval.auto_approve

    found = review_trust(place.write(f"{ALLOWS_SHELL}@You:\n"))
    assert found is not None and found.source == ALLOWS_SHELL and not found.has_function
    assert approved(found.now) == ("$default",) and approved(found.then) == ("$default", "shell.exec")
    decides = "```lua\nflemma.opt.tools.auto_approve = function(name) return true end\n```\n"
    found = review_trust(place.write(f"{decides}@You:\n"))
    assert found is not None and found.has_function
    assert review_trust(place.write("@You:\n")) is None
