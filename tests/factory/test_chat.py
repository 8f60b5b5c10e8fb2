"""Opened documents: frontmatter, trust, runtime, model and loop together, with real files and tools."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.config.layers import LoadedConfig
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.factory.chat import open_chat, review_trust
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject, results
from tests.runtime.support import run

ALLOWS_SHELL = "```lua\nflemma.opt.tools.auto_approve = { '$default', 'bash' }\n```\n"


def echoing() -> ScriptedModel:
    return ScriptedModel(scripted_reply(use("a", "shell.exec", '{"command": "echo hello > made.txt"}')))


@pytest.mark.spec("A2", "D6")
def test_frontmatter_that_loosens_applies_only_after_exactly_it_was_trusted(chat_project: ChatProject) -> None:
    chat_project.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    outcome, untrusted = chat_project.advance(echoing(), lambda chat: chat.untrusted)
    assert outcome.kind == "pending" and untrusted == ("approval.auto_approve",)
    assert not (chat_project.root / "made.txt").exists()

    chat_project.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    chat_project.trust()
    outcome, untrusted = chat_project.advance(echoing(), lambda chat: chat.untrusted)
    assert outcome.kind == "done" and untrusted == ()
    assert (chat_project.root / "made.txt").read_text() == "hello\n"

    chat_project.write(f"{ALLOWS_SHELL.replace('bash', 'shell.exec')}@You:\nGo.\n")
    assert chat_project.advance(echoing())[0].kind == "pending"


@pytest.mark.spec("A2", "D6")
def test_trust_in_a_document_does_not_extend_to_a_copy(chat_project: ChatProject) -> None:
    chat_project.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    chat_project.trust()
    chat_project.document = chat_project.root / "copy.chat"
    chat_project.write(f"{ALLOWS_SHELL}@You:\nGo.\n")
    assert chat_project.advance(echoing())[0].kind == "pending"


@pytest.mark.spec("A2")
def test_untrusted_frontmatter_tightens_at_once(chat_project: ChatProject) -> None:
    chat_project.write("```toml\n[approval]\nauto_approve = ['$readonly']\n```\n@You:\nGo.\n")
    model = ScriptedModel(scripted_reply(use("a", "file.write", '{"path": "a.txt", "content": "x"}')))
    assert chat_project.advance(model)[0].kind == "pending"
    assert not (chat_project.root / "a.txt").exists()


@pytest.mark.spec("U4", "D6")
def test_rules_tightened_during_a_turn_apply_to_the_next_call(chat_project: ChatProject) -> None:
    text = chat_project.write("@You:\nGo.\n")

    def tighten() -> None:
        found = text.read_text()
        text.write_text(f"```toml\n[approval]\nauto_approve = []\n```\n{found}")

    class Meddling(ScriptedModel):
        async def stream(self, *args: object, **more: object):  # type: ignore[no-untyped-def, override]
            if len(self.requests) == 1:
                tighten()
            async for event in super().stream(*args, **more):  # type: ignore[arg-type]
                yield event

    writing = '{"path": "%s", "content": "x"}'
    model = Meddling(
        scripted_reply(use("a", "file.write", writing % "one.txt")),
        scripted_reply(use("b", "file.write", writing % "two.txt")),
    )
    outcome, _ = chat_project.advance(model)
    assert outcome.kind in ("stale", "conflict")
    assert (chat_project.root / "one.txt").exists() and not (chat_project.root / "two.txt").exists()
    assert (
        chat_project.advance(ScriptedModel(scripted_reply(use("b", "file.write", writing % "two.txt"))))[0].kind
        == "pending"
    )
    assert not (chat_project.root / "two.txt").exists()


@pytest.mark.spec("R8")
def test_tools_that_the_document_does_not_choose_are_neither_shown_nor_run(chat_project: ChatProject) -> None:
    (chat_project.root / "notes.txt").write_text("hello")
    chat_project.write('```lua\nflemma.opt.tools = {"read", "calculator"}\n```\n@You:\nGo.\n')
    model = ScriptedModel(
        scripted_reply(
            use("a", "file.read", '{"path": "notes.txt"}'), use("b", "file.list", "{}"), use("c", "bash", "{}")
        )
    )
    assert chat_project.advance(model)[0].kind == "done"
    assert model.tools[0] == ["calculator", "file.read"]
    assert [(result.id, result.error) for result in results(model)] == [("a", False), ("b", True), ("c", True)]
    assert "is not allowed by tool policy" in results(model)[1].output


@pytest.mark.spec("R8")
def test_only_a_trusted_document_enables_a_disabled_tool(chat_project: ChatProject) -> None:
    text = '```lua\nflemma.opt.tools:append("calculator_async")\n```\n@You:\nGo.\n'
    chat_project.write(text)
    model = ScriptedModel()
    chat_project.advance(model)
    assert "calculator_async" not in model.tools[0]
    chat_project.write(text)
    chat_project.trust()
    model = ScriptedModel()
    chat_project.advance(model)
    assert "calculator_async" in model.tools[0]


@pytest.mark.spec("P4")
def test_the_policy_of_the_provider_narrows_the_tools_of_the_conversation(chat_project: ChatProject) -> None:
    config = chat_project.root.parent / "config" / "holdfast"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[tools.providers.scripted]\nallow = ['calculator']\n")
    chat_project.write("@You:\nGo.\n")
    model = ScriptedModel()
    chat_project.advance(model)
    assert model.tools[0] == ["calculator"]


@pytest.mark.spec("D6", "R6")
def test_a_frontmatter_error_is_reported_with_its_line_and_nothing_changes(chat_project: ChatProject) -> None:
    before = '```lua\nlocal a = 1\nflemma.opt.tools.auto_approve = { "raed" }\n```\n@You:\nGo.\n'
    chat_project.write(before)
    model = echoing()
    with pytest.raises(ConfigError, match=r"talk\.chat:3: .*unknown value 'raed'\. Did you mean 'read'\?"):
        chat_project.advance(model)
    assert model.requests == [] and chat_project.document.read_text() == before


@pytest.mark.spec("U6")
def test_a_document_in_use_cannot_be_opened_by_another_process(chat_project: ChatProject) -> None:
    chat_project.write("@You:\nGo.\n")

    async def session() -> None:
        async with open_chat(chat_project.document, model=ScriptedModel()):
            with pytest.raises(HoldfastError, match="is in use by"):
                async with asyncio.timeout(30), open_chat(chat_project.document, model=ScriptedModel()):
                    pass

    run(session())


@pytest.mark.spec("D8")
def test_files_and_expressions_are_expanded_in_user_text_but_not_in_results(chat_project: ChatProject) -> None:
    (chat_project.root / "notes.txt").write_text("eggs {{ 1 + 1 }} @./secret.txt")
    (chat_project.root / "secret.txt").write_text("do not tell")
    chat_project.write('```json\n{"who": "Ann"}\n```\n@You:\nFor {{ who }}: {{ 6 * 7 }} @./notes.txt\n')
    model = ScriptedModel(scripted_reply(use("a", "file.read", '{"path": "notes.txt"}')))
    chat_project.advance(model)
    sent = model.requests[0][-1].text
    assert "For Ann: 42" in sent and "eggs {{ 1 + 1 }} @./secret.txt" in sent and "do not tell" not in sent
    assert results(model)[0].output == "eggs {{ 1 + 1 }} @./secret.txt"


@pytest.mark.spec("E1c")
def test_a_trust_review_shows_what_trusting_would_change(chat_project: ChatProject) -> None:
    def approved(loaded: LoadedConfig) -> object:
        return loaded.config.approval.auto_approve

    found = review_trust(chat_project.write(f"{ALLOWS_SHELL}@You:\n"))
    assert found is not None and found.source == ALLOWS_SHELL and not found.has_function
    assert approved(found.now) == ("$default",) and approved(found.then) == ("$default", "shell.exec")
    decides = "```lua\nflemma.opt.tools.auto_approve = function(name) return true end\n```\n"
    found = review_trust(chat_project.write(f"{decides}@You:\n"))
    assert found is not None and found.has_function
    assert review_trust(chat_project.write("@You:\n")) is None
