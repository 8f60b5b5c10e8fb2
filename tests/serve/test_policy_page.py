"""The policy page explains the rules, a hypothetical call and the grants, and revokes one."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.config.config import ApprovalConfig, CommandRule, Preset
from holdfast.contract.result import ok
from holdfast.contract.tool import Tool
from holdfast.serve.policy_page import command_words, list_entries
from tests.serve.daemon_client import DaemonClient, run

pytestmark = pytest.mark.spec("E3")

RULES = """
[approval]
auto_approve = ["$readonly", "file.write"]

[[approval.commands]]
rule = "git push"
verdict = "deny"
match = ["git push <b>"]
"""


def explain(client: DaemonClient, tool: str, args: object = None) -> str:
    text = "" if args is None else f"&args={quote(json.dumps(args))}"
    return f"/policy?project={client.key}&tool={quote(tool)}{text}"


@pytest.mark.spec("E3s")
def test_the_rules_are_shown_in_words_with_what_each_entry_approves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        page = await client.page("/policy")
        for words in (
            "file.write will run without asking",
            "<code>$readonly</code>",
            "<code>file.read</code>",
            "git push &lt;b&gt;",
            "protected path",
            "There are no grants.",
            "built-in defaults",
            "auto_approve = ",
        ):
            assert words in page, words
        assert "<b>" not in page
        await client.get("/policy?project=ffff", 404)

    run(body, tmp_path, monkeypatch, RULES)


@pytest.mark.spec("E3s")
def test_a_hypothetical_call_is_explained_and_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        page = await client.page(explain(client, "file.write", {"path": "a", "content": "b"}))
        assert "It would run without asking." in page
        page = await client.page(explain(client, "shell.exec", {"command": "ls; git push"}))
        assert "It would be denied." in page
        assert "<code>git push</code>" in page
        page = await client.page(explain(client, "shell.exec", {"command": "rm -r x"}))
        assert "A person would be asked." in page
        page = await client.page(explain(client, "shell.exec"))
        assert "judged without arguments" in page
        with client.ledger() as ledger:
            assert ledger.calls() == []

    run(body, tmp_path, monkeypatch, RULES)


def test_a_recorded_call_is_explained_by_the_rules_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        client.record("shell.exec", {"command": "git push"}, ok("x"), "made-1", document="/x.chat")
        page = await client.page(f"/policy?project={client.key}&call=made-1")
        assert "It would be denied." in page
        assert "The rules of its document are not applied here." in page
        await client.get(f"/policy?project={client.key}&call=none", 404)
        client.record("shell.exec", {"command": "git push " + "x" * 200_000}, ok("x"), "made-2")
        page = await client.page(f"/policy?project={client.key}&call=made-2")
        assert "It would be denied." in page

    run(body, tmp_path, monkeypatch, RULES)


@pytest.mark.parametrize("args", ["{", "[1]", '{"path": 1}'])
def test_arguments_that_cannot_be_read_are_a_problem_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: str
) -> None:
    async def body(client: DaemonClient) -> None:
        page = await client.page(f"/policy?tool=file.read&args={quote(args)}", 422)
        assert 'role="alert"' in page

    run(body, tmp_path, monkeypatch)


def test_hostile_names_are_escaped_in_the_explanation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        page = await client.page(explain(client, "<script>alert(1)</script>", {"<script>": "</textarea>"}), 422)
        assert "<script>alert" not in page
        assert page.count("</textarea>") == 1
        page = await client.page(explain(client, "a\x1b\u202eb"), 422)
        assert "\x1b" not in page
        assert "\u202e" not in page

    run(body, tmp_path, monkeypatch)


def test_a_grant_is_shown_with_its_lifetime_and_can_be_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        with client.ledger() as ledger:
            made = [
                ledger.grants.add(tool="file.write", pattern={}, scope="project", by="cli:<ann>", expires=expires)
                for expires in (None, 1000.0)
            ]
        page = await client.page("/policy")
        assert "cli:&lt;ann&gt;" in page
        assert "until revoked" in page
        assert "expired 1970-01-01" in page
        address = f"/policy/{client.key}/grants/{made[0].id}/revoke"
        async with client.other("view") as viewer:
            assert "Revoke</button>" not in await viewer.page("/policy")
            await viewer.post(address, 403)
        async with client.other() as stranger:
            assert (await stranger.get("/policy", 303)).headers["location"].startswith("/login")
        await client.post(address)
        assert made[0].id not in await client.page("/policy")
        await client.post(address, 409)
        with client.ledger() as ledger:
            last = [entry for entry in ledger.entries() if entry.kind == "revoked"][-1]
            assert "page:" in str(last.body)

    run(body, tmp_path, monkeypatch)


@pytest.mark.spec("E3s")
def test_each_entry_says_what_it_approves_and_denies() -> None:
    def nothing(_: object) -> str:
        return ""

    tools = [Tool(name=name, execute=nothing, effects=frozenset()) for name in ("file.read", "file.write")]
    approval = ApprovalConfig(
        auto_approve=("$mine", "$none", "$shell-readonly"),
        presets={"$mine": Preset(approve=("file.*",), deny=("file.write",)), "$unused": Preset(approve=("x",))},
    )
    found = {entry.name: entry for entry in list_entries(approval, tools)}
    assert found["$mine"].tools == ["file.read"]
    assert found["$mine"].note == "denies file.write"
    assert found["$none"].note == "approves no tool here"
    assert "only read" in found["$shell-readonly"].note
    assert "does not name it" in found["$unused"].note
    assert list_entries(ApprovalConfig(auto_approve="a.b:c"), tools)[0].note == "this function decides"


def test_a_command_rule_says_what_it_lets_commands_do() -> None:
    rule = CommandRule(rule="make *", verdict="approve", options=("-j",), operands="files", network="on", write=("/x",))
    assert command_words(rule) == ("options -j; existing files of the project; reaches the network; changes /x")
