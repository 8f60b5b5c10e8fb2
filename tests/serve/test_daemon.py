"""The daemon as a whole: answers from everywhere, restarts, kills, several of it, and how it starts and ends."""

from __future__ import annotations

import random
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.contract.call import Answer
from holdfast.contract.errors import ConfigError
from holdfast.serve.daemon import Address, check_address
from holdfast.store.ledger import Ledger
from holdfast.store.people import People
from tests.cli.command_line import Cli
from tests.serve.served import WRITE, Daemon, answer, daemon, ended, pending, state_of, wait_for
from tests.soak import rounds


@pytest.mark.spec("E3")
def test_a_call_of_another_process_is_answered_and_runs_here(served: Daemon) -> None:
    served.cli.make_pending(*WRITE)
    client = served.local()
    (item,) = pending(client)
    assert item["waits"] == "nobody"
    assert answer(client, item, "approve").status_code == 200
    assert ended(client, item) == "done"
    assert (served.cli.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("E3")
def test_a_call_whose_program_waits_is_left_to_it(served: Daemon) -> None:
    program = """
import asyncio, holdfast
async def main():
    async with holdfast.open_runtime(nobody="wait") as runtime:
        result = await runtime.call("file.write", {"path": "notes.txt", "content": "hello"})
        print(result.success)
asyncio.run(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=served.cli.project, env=served.cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        client = served.local()
        item = wait_for(lambda: next(iter(pending(client)), None), "the pending call")
        assert item["waits"] == "a program"
        assert item["call"]["waiting_pid"] == process.pid
        told = answer(client, item, "approve").json()
        assert f"Process {process.pid} waits" in told["message"] or told["state"] in ("running", "done")
        out, err = process.communicate(timeout=60)
        assert out == "True\n", err
        record = client.get(f"/api/calls/{item['project']}/{item['call']['call_id']}").json()["call"]
        assert record["state"] == "done"
        assert len([entry for entry in record["answers"] if entry["kind"] == "approve"]) == 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.spec("E3")
def test_of_answers_from_page_api_and_terminal_exactly_one_counts(served: Daemon) -> None:
    clients = [served.local(), served.client(served.add("ann")), served.logged_in()]
    for _ in range(rounds(3, 30)):
        call_id = served.cli.make_pending(*WRITE)
        served.cli.run("pending", call_id)
        (item,) = pending(clients[0])
        outcomes: list[str] = []
        ready = threading.Barrier(4)

        def by_api(number: int, kind: str, item: dict[str, object] = item) -> None:
            ready.wait()  # noqa: B023
            reply = answer(clients[number], item, kind)
            outcomes.append("ok" if reply.status_code == 200 else "no")  # noqa: B023

        def by_form(item: dict[str, dict[str, str]] = item) -> None:
            ready.wait()  # noqa: B023
            address = f"/calls/{item['project']}/{item['call']['call_id']}/reject"
            reply = clients[2].post(address, data={"digest": item["call"]["digest"], "message": ""})
            outcomes.append("ok" if reply.status_code == 303 else "no")  # noqa: B023

        def by_terminal(call_id: str = call_id) -> None:
            ready.wait()  # noqa: B023
            done = served.cli.run("reject", call_id, "--json")
            outcomes.append("ok" if (done.code in (0, 3) and "error" not in done.json) or done.code == 0 else "no")  # noqa: B023

        threads = [
            threading.Thread(target=by_api, args=(0, "reject")),
            threading.Thread(target=by_api, args=(1, "approve")),
            threading.Thread(target=by_form),
            threading.Thread(target=by_terminal),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended(clients[0], item)
        record = clients[0].get(f"/api/calls/{item['project']}/{call_id}").json()["call"]
        assert len(record["answers"]) == 1, record["answers"]
        assert outcomes.count("ok") == 1, outcomes
        (served.cli.project / "notes.txt").unlink(missing_ok=True)


@pytest.mark.spec("E3")
def test_rules_that_changed_on_disk_apply_to_the_next_answer(served: Daemon) -> None:
    client = served.local()
    served.cli.make_pending(*WRITE)
    served.cli.make_pending("file.write", "path=other.txt", "content=x")
    first, second = pending(client)
    assert answer(client, first, "approve").status_code == 200
    assert ended(client, first) == "done"
    served.cli.configure('[approval]\nauto_approve = ["$readonly"]\n[tools]\ndeny = ["file.write"]\n')
    answer(client, second, "approve")
    assert ended(client, second) == "denied"
    assert not (served.cli.project / "other.txt").exists()
    served.cli.configure("[approval\n")
    served.cli.project.joinpath("x").touch()
    reply = client.post("/api/call", json={"tool": "calculator", "args": {"expression": "1"}})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (400, "config")


@pytest.mark.spec("E3d")
def test_a_restart_resumes_what_was_approved(asking: Cli) -> None:
    with daemon(asking) as first:
        asking.make_pending(*WRITE)
        (item,) = pending(first.local())
        code = first.new_code()
        first.kill()
    # Approved by a process that cannot run it: without tools, like a page whose runtime was never built.
    with Ledger.open(asking.ledger_file) as ledger:
        ledger.answer(item["call"]["call_id"], Answer(kind="approve", by="page:ann"), digest=item["call"]["digest"])
    with daemon(asking) as second:
        client = second.logged_in(code)  # the code outlives the daemon that made it
        assert ended(client, item) == "done"
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("E3d")
def test_a_daemon_killed_at_any_moment_loses_no_answer_and_runs_nothing_twice(asking: Cli) -> None:
    count = rounds(3, 100)
    chance = random.Random(7)
    accepted: list[str] = []
    for number in range(count):
        asking.run("call", "--json", "shell.exec", f"command=echo {number} >> ran.txt")
        with daemon(asking) as running:
            client = running.local()
            (item,) = pending(client)
            killer = threading.Timer(chance.uniform(0, 0.15), running.kill)
            killer.start()
            try:
                if answer(client, item, "approve").status_code == 200:
                    accepted.append(item["call"]["call_id"])
            except Exception:
                pass
            killer.join()
        with daemon(asking) as running:
            client = running.local()
            client.get("/api/tools")
            state = state_of(client, item)
            if item["call"]["call_id"] in accepted:
                assert state != "pending", "the answer was accepted and is lost"
            if state == "pending":
                answer(client, item, "reject")
            ended(client, item)
    ran = (asking.project / "ran.txt").read_text().split() if (asking.project / "ran.txt").exists() else []
    assert len(ran) == len(set(ran)), "a call ran twice"
    assert asking.run("ledger", "verify").code == 0


@pytest.mark.spec("E3d")
def test_several_daemons_serve_one_ledger(served: Daemon) -> None:
    token = served.add("ann")
    with daemon(served.cli) as other:
        assert other.socket is None, "the first one has the private socket"
        served.cli.make_pending(*WRITE)
        here, there = served.client(token), other.client(token)
        (item,) = pending(here)
        assert pending(there) == [item]
        assert answer(there, item, "approve").status_code == 200
        assert ended(here, item) == "done"
        assert answer(here, item, "approve").status_code == 409


@pytest.mark.spec("E3b")
def test_the_private_socket_is_private_and_needs_no_token(served: Daemon) -> None:
    assert served.socket is not None
    path = Path(served.socket)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert served.local().get("/api/projects").status_code == 200
    assert served.interrupt() == 0
    assert not path.exists()


@pytest.mark.spec("E3")
def test_a_socket_that_a_killed_daemon_left_is_replaced(asking: Cli) -> None:
    with daemon(asking) as first:
        first.kill()
        assert first.socket is not None and Path(first.socket).exists()
    with daemon(asking) as second:
        assert second.socket == first.socket
        assert second.local().get("/api/projects").status_code == 200


@pytest.mark.spec("E3")
def test_a_busy_port_is_one_sentence(asking: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = asking.run("serve", "--port", str(port))
    assert done.code == 2
    assert f"Port {port} cannot be used" in done.sentence


@pytest.mark.spec("E3")
def test_a_disabled_ledger_is_one_sentence(cli: Cli) -> None:
    cli.configure("[ledger]\nenabled = false\n")
    done = cli.run("serve", "--port", "0")
    assert done.code == 2
    assert "ledger.enabled" in done.sentence


@pytest.mark.spec("E3")
def test_a_call_can_be_stopped_and_rejected_while_the_configuration_is_broken(served: Daemon) -> None:
    client = served.local()
    for name in ("a.txt", "b.txt", "c.txt"):
        served.cli.make_pending("file.write", f"path={name}", "content=x")
    first, second, third = pending(client)
    answer(client, first, "reject").raise_for_status()  # opens the runtime
    config = served.cli.project / "holdfast.toml"
    config.write_text("[approval\n")
    assert answer(client, second, "approve").status_code == 400
    answer(client, second, "reject").raise_for_status()
    address = f"/api/calls/{third['project']}/{third['call']['call_id']}/cancel"
    client.post(address, json={}).raise_for_status()
    assert [state_of(client, item) for item in (second, third)] == ["rejected", "cancelled"]


@pytest.mark.spec("E3")
def test_ctrl_c_ends_it_cleanly_even_with_open_streams(served: Daemon) -> None:
    client = served.local()
    with client.stream("GET", "/api/events") as reply:
        assert next(reply.iter_lines()) == "retry: 1000"
        begun = time.monotonic()
        assert served.interrupt() == 0
        assert time.monotonic() - begun < 30
    assert served.log() == ""


@pytest.mark.spec("E3b")
def test_only_loopback_needs_neither_an_origin_nor_a_token(tmp_path: Path) -> None:
    people = People(tmp_path / "people.db")
    check_address(Address(), people)
    with pytest.raises(ConfigError, match="--origin"):
        check_address(Address(host="0.0.0.0"), people)
    with pytest.raises(ConfigError, match="people add"):
        check_address(Address(host="0.0.0.0", origins=("https://box.example",)), people)
    people.add("ann")
    check_address(Address(host="0.0.0.0", origins=("https://box.example",)), people)


@pytest.mark.spec("E3")
def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(served: Daemon) -> None:
    client = served.local()
    page = client.get("/nothing", headers={"Accept": "text/html"})
    assert (page.status_code, "There is no such page." in page.text) == (404, True)
    for path in ("/api/nothing", "/api/calls/none/none"):
        reply = client.get(path)
        assert reply.status_code == 404
        assert set(reply.json()["error"]) == {"kind", "message"}
    assert client.get("/logout").status_code == 405
    assert client.get("/static/../daemon.py").status_code == 404
    assert client.get("/static/%2e%2e%2fdaemon.py").status_code == 404
