"""`--json`: every command writes the objects that the reference documents."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from holdfast.cli.reference import OUTPUTS, commands, objects
from holdfast.cli.root import holdfast
from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, NetworkLog
from holdfast.store.ledger import Ledger
from tests.cli.command_line import Cli, Json
from tests.cli.conftest import asking, cli
from tests.cli.file_changes import change_files

__all__ = ["asking", "cli"]  # fixtures


def leaves() -> Iterator[str]:
    """Return every command that is not a group, by its path below `holdfast`."""
    for path, ctx in commands(holdfast):
        if not hasattr(ctx.command, "commands") and path != "holdfast tour":
            yield path.removeprefix("holdfast ")


@pytest.mark.spec("E1a")
def test_the_reference_names_the_output_of_every_command() -> None:
    assert set(leaves()) == set(OUTPUTS)


@pytest.mark.spec("E1a")
def test_every_command_writes_the_fields_of_the_reference(asking: Cli) -> None:
    seen = dict(_outputs(asking))
    # They need more than a place: see test_cli_mcp* and test_cli_config.
    servers = {"mcp serve", "mcp review", "mcp login", "serve run"}
    elsewhere = servers | {"google login", "google logout", "config edit", "memory edit"}
    assert set(seen) == set(OUTPUTS) - {"config schema", "ledger export"} - elsewhere
    for command, (kind, written) in seen.items():
        assert f"`{kind}`" in OUTPUTS[command], command
        assert written, command
        for item in written:
            assert set(item) == set(objects()[kind]), command


def _outputs(cli: Cli) -> Iterator[tuple[str, tuple[str, list[Json]]]]:
    """Run every command; yield the kind of object it should write, and the objects it wrote."""
    write = ("file.write", "path=notes.txt", "content=hello")
    yield "init", ("written", cli.run("init", "--json").lines)
    yield "call", ("result", cli.run("call", "calculator", "expression=1", "--json").lines)
    yield from _memory_outputs(cli)
    yield from _cron_outputs(cli)
    yield "tools", ("tool", cli.run("tools", "--json").lines + cli.run("tools", "calculator", "--json").lines)
    yield "notify status", ("notify channel", cli.run("notify", "--json").lines)
    yield "notify test", ("notify channel", cli.run("notify", "test", "--json").lines)
    yield "google status", ("google login", cli.run("google", "status", "--json").lines)
    yield "policy show", ("policy", cli.run("policy", "show", "--json").lines)
    yield "policy explain", ("explanation", cli.run("policy", "explain", *write, "--json").lines)
    yield "policy fuzz", ("fuzzing", cli.run("policy", "fuzz", "$shell-readonly", "--count", "50", "--json").lines)
    waiting = [cli.make_pending(*write) for _ in range(3)]
    yield "pending", ("pending", cli.run("pending", "--json").lines + cli.run("pending", waiting[0], "--json").lines)
    yield "reject", ("result", cli.run("reject", waiting[0], "--json").lines)
    yield "respond", ("result", cli.run("respond", waiting[1], "text", "--json").lines)
    yield "approve", ("result", cli.run("approve", waiting[2], "--always", "project", "--json").lines)
    grants = cli.run("grants", "--json").lines
    yield "grants list", ("grant", grants)
    yield "grants revoke", ("grant", cli.run("grants", "revoke", grants[0]["id"], "--json").lines)
    yield "ledger list", ("call", cli.run("ledger", "--json").lines)
    yield "ledger show", ("call", cli.run("ledger", "show", waiting[2], "--json").lines)
    yield "ledger verify", ("verification", cli.run("ledger", "verify", "--json").lines)
    NetworkLog(cli.ledger_file.parent / NETWORK_LOG).record(
        NetworkEntry(at=1.0, by="web.fetch a1", host="example.org", port=443, outcome="allowed")
    )
    yield "ledger network", ("network", cli.run("ledger", "network", "--json").lines)
    changed = change_files(cli, {"changed.txt": "changed"})
    yield "changes", ("change", cli.run("changes", changed, "--diff", "--json").lines)
    listed = cli.run("changes", "--json").lines
    assert [set(item) for item in listed] == [set(objects()["changing call"])] * len(listed)
    yield "undo", ("undo", cli.run("undo", changed, "--yes", "--json").lines)
    yield "ledger prune", ("pruning", cli.run("ledger", "prune", "--json").lines)
    yield "config show", ("configuration", cli.run("config", "--json").lines)
    yield "config path", ("places", cli.run("config", "path", "--json").lines)
    yield "config check", ("check", cli.run("config", "check", "--json").lines)
    yield "chat new", ("written", cli.run("chat", "new", "a.chat", "-m", 'write "x" to x.txt', "--json").lines)
    yield "chat advance", ("outcome", cli.run("chat", "a.chat", "--json").lines[-1:])
    documents = cli.run("chat", "status", "--json").lines
    yield "chat status", ("document", documents)
    assert [set(slot) for slot in documents[0]["slots"]] == [set(objects()["slot"])]
    yield "chat run", ("outcome", cli.run("chat", "run", documents[0]["slots"][0]["id"], "--json").lines[-1:])
    yield "chat cancel", ("stop", cli.run("chat", "cancel", "a.chat", "--json").lines)
    yield "trust file", ("trust", cli.run("trust", "--yes", "--json").lines)
    yield "trust list", ("trust", cli.run("trust", "list", "--json").lines)
    yield "trust revoke", ("trust", cli.run("trust", "revoke", "--json").lines)
    yield "serve people add", ("person", cli.run("serve", "people", "add", "ann", "--json").lines)
    yield "serve people list", ("person", cli.run("serve", "people", "--json").lines)
    yield "serve link", ("link", cli.run("serve", "link", "--as", "ann", "--json").lines)
    yield "serve people remove", ("person", cli.run("serve", "people", "remove", "ann", "--json").lines)
    yield "doctor", ("finding", cli.run("--set", "sandbox.mode=off", "doctor", "--json").lines)
    yield "mcp install", ("installed", cli.run("mcp", "install", "claude", "--yes", "--json").lines)
    cli.configure('[mcp.servers.off]\nurl = "https://mcp.example/"\nenabled = false\n')
    yield "mcp servers", ("server", cli.run("mcp", "servers", "--json").lines)
    yield "mcp forget", ("forgotten", cli.run("mcp", "forget", "off", "--yes", "--json").lines)
    yield "mcp logout", ("login", cli.run("mcp", "logout", "off", "--json").lines)
    yield "help", ("topic", cli.run("help", "--json").lines + cli.run("help", "mcp", "--json").lines)
    yield "completion", ("script", cli.run("completion", "bash", "--json").lines)


@pytest.mark.spec("E1a")
def test_the_objects_inside_a_result_have_the_fields_of_the_reference(asking: Cli) -> None:
    result = asking.run("call", "--json", "file.write", "path=notes.txt", "content=hello").json
    assert set(result["error"]) == set(objects()["error"])
    assert set(result["pending"]) == set(objects()["pending"])
    record = asking.run("ledger", "show", result["call_id"], "--json").json
    assert record["result"] is None
    assert result["pending"]["diff"].endswith("+hello\n\\ No newline at end of file\n")


@pytest.mark.spec("E1a")
def test_an_empty_list_prints_no_line(cli: Cli) -> None:
    for command in (("pending",), ("grants",), ("cron",), ("ledger",), ("changes",), ("trust", "list")):
        done = cli.run(*command, "--json")
        assert (done.code, done.out) == (0, ""), command


@pytest.mark.spec("E1a")
def test_the_export_is_every_entry_and_the_schema_is_a_schema(cli: Cli) -> None:
    cli.run("call", "calculator", "expression=1")
    entries = cli.run("ledger", "export").lines
    assert [set(entry) for entry in entries] == [{"id", "call", "kind", "at", "hash", "body"}]
    assert cli.run("ledger", "export", "--json").lines == entries
    schema = cli.run("config", "schema").json
    assert schema == json.loads(cli.run("config", "schema", "--json").out)
    assert "tools" in schema["properties"]


def _memory_outputs(cli: Cli) -> Iterator[tuple[str, tuple[str, list[Json]]]]:
    (cli.project / "note.md").write_text("a note")
    allowed = ("--set", 'approval.auto_approve=["memory.*"]', "--set", "memory.embedder=none", "memory")
    written = cli.run(*allowed, "import", "note.md", "--namespace", "notes", "--json").lines
    item = written[0]["structured"]["id"]
    yield "memory import", ("result", written)
    yield "memory list", ("result", cli.run(*allowed, "list", "--json").lines)
    yield "memory search", ("result", cli.run(*allowed, "search", "note", "--json").lines)
    yield "memory show", ("result", cli.run(*allowed, "show", item, "--json").lines)
    yield "memory export", ("written", cli.run(*allowed, "export", "out", "--json").lines)
    yield "memory forget", ("result", cli.run(*allowed, "forget", item, "--json").lines)


def _cron_outputs(cli: Cli) -> Iterator[tuple[str, tuple[str, list[Json]]]]:
    allowed = ("--set", 'tools.allow=["cron.*"]', "--set", 'approval.auto_approve=["$default", "cron.*"]', "cron")
    added = cli.run(*allowed, "add", "* * * * *", "system.info", "--json").lines
    yield "cron add", ("result", added)
    yield "cron list", ("schedule", cli.run(*allowed, "list", "--json").lines)
    with Ledger.open(cli.ledger_file) as ledger:
        ledger.run(lambda tx: tx.execute("UPDATE schedules SET next_at = ?", (time.time() // 60 * 60,)))
    yield "cron run", ("schedule", cli.run(*allowed, "run", "--json").lines)
    removed = cli.run(*allowed, "remove", added[0]["structured"]["id"], "--json").lines
    yield "cron remove", ("result", removed)
