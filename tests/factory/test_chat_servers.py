"""Documents with tools of MCP servers: chosen by name before the server is up, and their results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Tool
from holdfast.chat.frontmatter.evaluation import allowed_tools
from holdfast.contract.errors import ConfigError
from holdfast.contract.result import Attachment
from holdfast.factory.chat import ChatSession
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject, mark_approved, results

PLAIN = Path(__file__).parents[1] / "mcp" / "client" / "servers" / "plain.py"


def _configured(chat_project: ChatProject, *, unasked: bool = True) -> None:
    """Add the server to the user configuration."""
    wire = chat_project.root / "wire"
    wire.mkdir()
    args = json.dumps([str(PLAIN), str(wire)])
    file = chat_project.root.parent / "config" / "holdfast" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        ('[approval]\nauto_approve = ["$default", "mcp:p:*"]\n' if unasked else "")
        + f"[mcp.servers.p]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
        f"cwd = {json.dumps(str(PLAIN.parent))}\nwritable = [{json.dumps(str(wire))}]\n"
    )


def _opening(text: str) -> str:
    return f"```lua\n{text}\n```\n\n@You:\nHello.\n"


@pytest.mark.spec("K1", "R4")
def test_the_first_request_waits_for_the_servers_tools(chat_project: ChatProject) -> None:
    _configured(chat_project)
    chat_project.write("@You:\nHello.\n")
    model = ScriptedModel(scripted_reply("Hello."))
    chat_project.advance(model)
    assert "mcp:p:echo" in model.tools[0] and "file.read" in model.tools[0]


@pytest.mark.spec("K1", "R8")
@pytest.mark.parametrize(
    ("frontmatter", "shown", "hidden"),
    [
        ('flemma.opt.tools = { "mcp:p:echo", "read" }', {"mcp:p:echo", "file.read"}, {"mcp:p:pid", "file.write"}),
        ('flemma.opt.tools:remove("bash")', {"mcp:p:echo", "file.write"}, {"shell.exec"}),
        ('flemma.opt.tools:remove("mcp:p:echo")', {"mcp:p:pid"}, {"mcp:p:echo"}),
        ('flemma.opt.tools = { "read", "mcp:p:e*" }', {"mcp:p:echo"}, {"mcp:p:pid"}),
        ('flemma.opt.tools = { "read", "mcp:p:ech?" }', {"mcp:p:echo"}, {"mcp:p:pid"}),
        ('flemma.opt.tools:remove("mcp:p:[e]*")', {"mcp:p:pid"}, {"mcp:p:echo"}),
    ],
)
def test_a_document_can_choose_tools_that_are_not_loaded_yet(
    chat_project: ChatProject, frontmatter: str, shown: set[str], hidden: set[str]
) -> None:
    _configured(chat_project)
    chat_project.write(_opening(frontmatter))
    model = ScriptedModel(scripted_reply("Hello."))
    chat_project.advance(model)
    assert shown <= set(model.tools[0]) and hidden.isdisjoint(model.tools[0])


@pytest.mark.spec("K1", "R6")
def test_an_unconfigured_server_is_reported_as_an_unknown_name(chat_project: ChatProject) -> None:
    _configured(chat_project)
    chat_project.write(_opening('flemma.opt.tools = { "mcp:q:echo" }'))
    with pytest.raises(ConfigError, match="unknown value 'mcp:q:echo'"):
        chat_project.advance(ScriptedModel(scripted_reply("Hello.")))


@pytest.mark.spec("K1", "R6")
def test_naming_a_tool_that_its_server_lacks_is_a_warning(
    chat_project: ChatProject, caplog: pytest.LogCaptureFixture
) -> None:
    _configured(chat_project)
    chat_project.write(_opening('flemma.opt.tools = { "mcp:p:ecko", "mcp:p:pid" }'))
    model = ScriptedModel(scripted_reply("Hello."))
    chat_project.advance(model)
    assert model.tools[0] == ["mcp:p:pid"]
    told = "The MCP server 'p' has no tool 'mcp:p:ecko', which the document names. Did you mean 'mcp:p:echo'?"
    assert caplog.messages.count(told) == 1


@pytest.mark.spec("K1", "R5")
def test_the_documents_tools_are_computed_on_demand_and_not_at_every_change(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(chat_project)
    chat_project.write(_opening('flemma.opt.tools = { "mcp:p:echo", "mcp:p:later*" }'))
    asked: list[int] = []

    def counting(*args: Any, **options: Any) -> frozenset[str] | None:
        asked.append(1)
        return allowed_tools(*args, **options)

    monkeypatch.setattr("holdfast.factory.chat.allowed_tools", counting)

    def look(chat: ChatSession) -> list[str]:
        before = len(asked)
        for number in range(50):
            chat.runtime.registry.register(Tool(name=f"mcp:p:later{number}", source="mcp:p"))
        assert len(asked) == before
        assert chat.loop.tools() == chat.loop.tools()
        assert len(asked) == before + 1
        return [tool.name for tool in chat.loop.tools()]

    _, names = chat_project.advance(ScriptedModel(scripted_reply("Hello.")), look)
    assert names is not None and len(names) == 51


@pytest.mark.spec("T10b", "K1")
def test_attachments_of_a_server_reach_the_model_also_from_another_process(chat_project: ChatProject) -> None:
    _configured(chat_project)
    chat_project.write("@You:\nShow me.\n")
    model = ScriptedModel(scripted_reply(use("b", "mcp:p:blocks", "{}")), scripted_reply("I see."))
    chat_project.advance(model)
    [result] = results(model)
    assert result.output == "one\ntwo"
    image, audio, inside, far = result.attachments
    path = f"{chat_project.document}.files/{image.digest[:16]}-image.png"
    assert image == Attachment(kind="image", mime_type="image/png", data=b"\x89PNG", path=path)
    assert (audio.kind, audio.mime_type, audio.data) == ("audio", "audio/wav", b"RIFF")
    assert (inside.kind, inside.data, inside.uri) == ("file", b"inside", "file:///../etc/passwd")
    assert (far.kind, far.data, far.uri) == ("file", b"", "demo://x/../../y")
    again = ScriptedModel(scripted_reply("Still."))
    chat_project.write(chat_project.document.read_text() + "\n@You:\nAnd now?\n")
    chat_project.advance(again)
    assert results(again)[0].attachments == result.attachments


@pytest.mark.spec("K1", "R4", "U2")
def test_a_call_approved_meanwhile_runs_once_its_server_is_up(chat_project: ChatProject) -> None:
    _configured(chat_project, unasked=False)
    chat_project.write("@You:\nSay hi.\n")
    chat_project.advance(ScriptedModel(scripted_reply(use("e", "mcp:p:echo", '{"text": "hi"}'))))
    assert "status=pending" in chat_project.document.read_text()
    mark_approved(chat_project)
    model = ScriptedModel(scripted_reply("Done."))
    outcome, _ = chat_project.advance(model)
    assert (outcome.kind, results(model)[0].output) == ("done", "hi")
