"""Documents and the tools of MCP servers: chosen by name before their server is up, and everything they return."""

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
from tests.agent.scripted import Scripted, said, use
from tests.factory.places import Place, approve, results

PLAIN = Path(__file__).parents[1] / "mcp" / "client" / "servers" / "plain.py"


def _configured(place: Place, *, unasked: bool = True) -> None:
    """The server is in the person's own configuration."""
    wire = place.root / "wire"
    wire.mkdir()
    args = json.dumps([str(PLAIN), str(wire)])
    file = place.root.parent / "config" / "holdfast" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        ('[approval]\nauto_approve = ["$default", "mcp:p:*"]\n' if unasked else "")
        + f"[mcp.servers.p]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
        f"cwd = {json.dumps(str(PLAIN.parent))}\nwritable = [{json.dumps(str(wire))}]\n"
    )


def _opening(text: str) -> str:
    return f"```lua\n{text}\n```\n\n@You:\nHello.\n"


@pytest.mark.spec("K1", "R4")
def test_the_first_request_waits_for_the_servers_tools(place: Place) -> None:
    _configured(place)
    place.write("@You:\nHello.\n")
    model = Scripted(said("Hello."))
    place.drive(model)
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
def test_a_document_chooses_among_tools_that_are_not_there_yet(
    place: Place, frontmatter: str, shown: set[str], hidden: set[str]
) -> None:
    _configured(place)
    place.write(_opening(frontmatter))
    model = Scripted(said("Hello."))
    place.drive(model)
    assert shown <= set(model.tools[0]) and hidden.isdisjoint(model.tools[0])


@pytest.mark.spec("K1", "R6")
def test_a_server_nobody_configured_is_a_misspelt_name(place: Place) -> None:
    _configured(place)
    place.write(_opening('flemma.opt.tools = { "mcp:q:echo" }'))
    with pytest.raises(ConfigError, match="unknown value 'mcp:q:echo'"):
        place.drive(Scripted(said("Hello.")))


@pytest.mark.spec("K1", "R6")
def test_a_tool_its_server_does_not_have_is_a_warning(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    _configured(place)
    place.write(_opening('flemma.opt.tools = { "mcp:p:ecko", "mcp:p:pid" }'))
    model = Scripted(said("Hello."))
    place.drive(model)
    assert model.tools[0] == ["mcp:p:pid"]
    told = "The MCP server 'p' has no tool 'mcp:p:ecko', which the document names. Did you mean 'mcp:p:echo'?"
    assert caplog.messages.count(told) == 1


@pytest.mark.spec("K1", "R5")
def test_what_a_document_chose_is_worked_out_when_it_is_needed_and_not_at_every_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(place)
    place.write(_opening('flemma.opt.tools = { "mcp:p:echo", "mcp:p:later*" }'))
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

    _, names = place.drive(Scripted(said("Hello.")), look)
    assert names is not None and len(names) == 51


@pytest.mark.spec("T10b", "K1")
def test_what_a_server_returns_reaches_the_model_as_what_it_is_also_from_another_process(place: Place) -> None:
    _configured(place)
    place.write("@You:\nShow me.\n")
    model = Scripted(said(use("b", "mcp:p:blocks", "{}")), said("I see."))
    place.drive(model)
    [result] = results(model)
    assert result.output == "one\ntwo"
    image, audio, inside, far = result.attachments
    assert image == Attachment(kind="image", mime_type="image/png", data=b"\x89PNG")
    assert (audio.kind, audio.mime_type, audio.data) == ("audio", "audio/wav", b"RIFF")
    assert (inside.kind, inside.data, inside.uri) == ("file", b"inside", "file:///../etc/passwd")
    assert (far.kind, far.data, far.uri) == ("file", b"", "demo://x/../../y")
    again = Scripted(said("Still."))
    place.write(place.document.read_text() + "\n@You:\nAnd now?\n")
    place.drive(again)
    assert results(again)[0].attachments == result.attachments


@pytest.mark.spec("K1", "R4", "U2")
def test_a_call_that_was_approved_meanwhile_runs_when_its_server_is_up(place: Place) -> None:
    _configured(place, unasked=False)
    place.write("@You:\nSay hi.\n")
    place.drive(Scripted(said(use("e", "mcp:p:echo", '{"text": "hi"}'))))
    assert "status=pending" in place.document.read_text()
    approve(place)
    model = Scripted(said("Done."))
    outcome, _ = place.drive(model)
    assert (outcome.kind, results(model)[0].output) == ("done", "hi")
