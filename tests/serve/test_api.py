"""The HTTP API: everything the page does, as JSON, with the rights of the person who asks."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from holdfast.cli.reference import commands
from holdfast.cli.root import holdfast
from holdfast.serve.api import ENDPOINTS
from holdfast.serve.openapi import reference
from tests.cli.command_line import Cli
from tests.serve.served import WRITE, Daemon, answer, daemon, ended, pending, state_of, wait_for

DOCS = Path(__file__).parents[2] / "docs" / "api-http.md"
POSTS = [endpoint for endpoint in ENDPOINTS if endpoint.method == "POST"]


@pytest.fixture
def ann(served: Daemon) -> httpx2.Client:
    return served.client(served.add("ann"))


@pytest.mark.spec("E3a")
def test_a_call_is_made_listed_approved_and_read(served: Daemon, ann: httpx2.Client) -> None:
    body = {"tool": "file.write", "args": {"path": "notes.txt", "content": "hello"}}
    made = ann.post("/api/call", json=body).json()
    assert (made["state"], made["result"]["error"]["kind"]) == ("pending", "awaiting_approval")
    (item,) = pending(ann)
    assert item["call"]["caller"]["interface"] == "api"
    assert "+hello" in item["call"]["diff"]
    reply = answer(ann, item, "approve")
    assert (reply.status_code, reply.json()["ok"]) == (200, True)
    assert ended(ann, item) == "done"
    assert (served.cli.project / "notes.txt").read_text() == "hello"
    record = ann.get(f"/api/calls/{item['project']}/{made['call_id']}").json()["call"]
    assert [(given["by"], given["identity"]) for given in record["answers"]] == [("api:ann", "token:ann")]
    assert pending(ann) == []


@pytest.mark.spec("E3a")
def test_a_call_that_needs_no_approval_has_its_result_at_once(ann: httpx2.Client) -> None:
    made = ann.post("/api/call", json={"tool": "calculator", "args": {"expression": "6*7"}}).json()
    assert (made["state"], made["result"]["output"]) == ("done", "42")
    unknown = ann.post("/api/call", json={"tool": "no.such", "args": {}}).json()
    assert (unknown["state"], unknown["result"]["error"]["kind"]) == ("invalid", "unknown_tool")


@pytest.mark.spec("E3a")
def test_a_call_that_takes_longer_goes_on_and_can_be_cancelled(served: Daemon, ann: httpx2.Client) -> None:
    served.cli.configure("[sandbox]\nmode = 'off'\n[approval]\nauto_approve = ['shell.exec']\n")
    body = {"tool": "shell.exec", "args": {"command": "sleep 100"}, "wait": 0.2}
    made = ann.post("/api/call", json=body).json()
    if made["state"] == "pending":  # this configuration asks about unsandboxed commands, too
        item = next(item for item in pending(ann) if item["call"]["call_id"] == made["call_id"])
        answer(ann, item, "approve")
    address = f"/api/calls/{made['project']}/{made['call_id']}"
    state = lambda: ann.get(address).json().get("call", {}).get("state")  # noqa: E731
    wait_for(lambda: state() == "running", "the call to run")
    assert ann.post(f"{address}/cancel", json={}).json()["ok"] is True
    wait_for(lambda: state() != "running", "the end of the call")
    assert ann.get(address).json()["call"]["state"] == "cancelled"
    again = ann.post(f"{address}/cancel", json={})
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "not_pending")


@pytest.mark.spec("E3a")
def test_arguments_are_edited_then_approved_as_they_are_now(served: Daemon, ann: httpx2.Client) -> None:
    served.cli.make_pending(*WRITE)
    (item,) = pending(ann)
    changed = answer(ann, item, "edit", args={"path": "other.txt", "content": "new"})
    assert changed.status_code == 200, changed.text
    assert answer(ann, item, "approve").status_code == 409, "the digest is that of the call before the edit"
    assert answer(ann, changed.json(), "approve").status_code == 200
    assert ended(ann, item) == "done"
    assert (served.cli.project / "other.txt").read_text() == "new"
    assert not (served.cli.project / "notes.txt").exists()


@pytest.mark.spec("E3a")
def test_arguments_that_the_tool_does_not_take_are_refused_and_nothing_is_recorded(
    served: Daemon, ann: httpx2.Client
) -> None:
    served.cli.make_pending(*WRITE)
    (item,) = pending(ann)
    reply = answer(ann, item, "edit", args={"path": 7})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (422, "invalid_arguments")
    assert pending(ann) == [item]


@pytest.mark.spec("E3a")
def test_calls_are_rejected_and_answered_in_the_tools_place(served: Daemon, ann: httpx2.Client) -> None:
    served.cli.make_pending(*WRITE)
    served.cli.make_pending(*WRITE)
    first, second = pending(ann)
    assert answer(ann, first, "reject", message="Not now.").json()["state"] == "rejected"
    assert answer(ann, second, "respond", output="It is there already.", success=True).json()["state"] == "done"
    record = ann.get(f"/api/calls/{second['project']}/{second['call']['call_id']}").json()["call"]
    assert record["result"]["output"] == "It is there already."
    assert not (served.cli.project / "notes.txt").exists()


@pytest.mark.spec("E3a")
def test_several_calls_are_approved_with_an_outcome_each(served: Daemon, ann: httpx2.Client) -> None:
    for name in "abc":
        served.cli.make_pending("file.write", f"path={name}.txt", "content=x")
    items = pending(ann)
    refs = [
        {"project": item["project"], "call_id": item["call"]["call_id"], "digest": item["call"]["digest"]}
        for item in items
    ]
    refs[1]["digest"] = "0" * 64
    refs.append({"project": "none", "call_id": "none", "digest": ""})
    outcomes = ann.post("/api/approve", json={"calls": refs}).json()["outcomes"]
    assert [outcome["ok"] for outcome in outcomes] == [True, False, True, False]
    assert "changed" in outcomes[1]["message"]
    assert [ended(ann, items[0]), ended(ann, items[2]), state_of(ann, items[1])] == ["done", "done", "pending"]


@pytest.mark.spec("E3a")
def test_what_a_call_changed_is_listed_and_undone(served: Daemon, ann: httpx2.Client) -> None:
    served.cli.make_pending(*WRITE)
    (item,) = pending(ann)
    answer(ann, item, "approve")
    ended(ann, item)
    address = f"/api/calls/{item['project']}/{item['call']['call_id']}"
    (change,) = ann.get(f"{address}/changes?diff=1").json()["changes"]
    assert (change["kind"], change["undo"]) == ("created", "put_back")
    assert "+hello" in change["diff"]
    undone = ann.post(f"{address}/undo", json={}).json()
    assert undone["success"] is True
    assert not (served.cli.project / "notes.txt").exists()
    assert ann.post(f"{address}/undo", json={}).status_code == 409
    assert ann.get(f"{address}/changes").json()["undone_by"] == undone["undo_id"]


@pytest.mark.spec("E3a")
def test_history_is_filtered_and_read_in_pages_without_gaps(served: Daemon, ann: httpx2.Client) -> None:
    for number in range(7):
        ann.post("/api/call", json={"tool": "calculator", "args": {"expression": f"{number}+1"}})
    served.cli.make_pending(*WRITE)
    seen: list[str] = []
    before = ""
    while True:
        page = ann.get(f"/api/calls?limit=3{before}").json()
        seen += [call["call_id"] for call in page["calls"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert len(seen) == len(set(seen)) == 8
    assert [call["tool"] for call in ann.get("/api/calls?state=pending").json()["calls"]] == ["file.write"]
    assert len(ann.get("/api/calls?tool=calc*&text=6%2B1").json()["calls"]) == 1
    assert ann.get("/api/calls?text=(a%2B)%2B%24").json()["calls"] == [], "text is no pattern"


@pytest.mark.spec("E3a")
def test_tools_are_listed_and_decisions_explained(ann: httpx2.Client) -> None:
    tools = {tool["name"]: tool for tool in ann.get("/api/tools").json()["tools"]}
    assert tools["file.write"]["input_schema"]["type"] == "object"
    body = {"tool": "file.write", "args": {"path": "a", "content": "b"}}
    explained = ann.post("/api/explain", json=body).json()
    assert explained["decision"]["verdict"] == "ask"
    assert ann.post("/api/explain", json={"tool": "no.such"}).status_code == 404


@pytest.mark.spec("E3a")
def test_grants_are_listed_and_revoked(served: Daemon, ann: httpx2.Client) -> None:
    call = served.cli.make_pending(*WRITE)
    served.cli.run("pending", call)
    assert served.cli.run("approve", call, "--always", "project").code == 0
    (grant,) = ann.get("/api/grants").json()["grants"]
    assert ann.post(f"/api/grants/{grant['id']}/revoke", json={}).json()["id"] == grant["id"]
    assert ann.get("/api/grants").json()["grants"] == []
    assert ann.post(f"/api/grants/{grant['id']}/revoke", json={}).status_code == 409


@pytest.mark.spec("E3a")
def test_a_document_is_advanced_and_its_pending_call_answered(served: Daemon, ann: httpx2.Client) -> None:
    served.cli.run("chat", "new", "a.chat", "-m", 'write "x" to x.txt')
    first = ann.post("/api/documents/advance", json={"path": "a.chat", "wait": 60}).json()["outcome"]
    assert first["kind"] == "pending"
    (document,) = ann.get("/api/documents").json()["documents"]
    assert (document["next"], len(document["slots"])) == ("pending", 1)
    (item,) = pending(ann)
    told = answer(ann, item, "approve").json()
    assert (told["state"], told["message"]) == ("approved", "It runs when its document advances.")
    second = ann.post("/api/documents/advance", json={"path": "a.chat", "wait": 60}).json()["outcome"]
    assert second["kind"] == "done"
    assert (served.cli.project / "x.txt").read_text() == "x"


@pytest.mark.spec("E3a")
@pytest.mark.parametrize("path", ["/etc/passwd", "../x.chat", "missing.chat", "notes.txt", "a\0.chat", ""])
def test_only_a_document_of_the_project_is_advanced(served: Daemon, ann: httpx2.Client, path: str) -> None:
    (served.cli.project.parent / "x.chat").write_text("@You: hello\n")
    reply = ann.post("/api/documents/advance", json={"path": path})
    assert reply.status_code == 400, reply.text


@pytest.mark.spec("E3b")
def test_a_person_who_may_only_look_acts_nowhere(served: Daemon) -> None:
    served.cli.make_pending(*WRITE)
    viewer = served.client(served.add("bob", "--view"))
    (item,) = pending(viewer)
    for endpoint in POSTS:
        names = {"project": item["project"], "call_id": item["call"]["call_id"], "grant_id": "g1"}
        reply = viewer.post(endpoint.path.format(**names), json={"digest": item["call"]["digest"]})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (403, "forbidden"), endpoint.path
    assert pending(viewer) == [item]


@pytest.mark.spec("E3a")
def test_every_action_is_also_a_command() -> None:
    known = {path.removeprefix("holdfast ") for path, _ in commands(holdfast)}
    assert {endpoint.path: endpoint.command for endpoint in POSTS if endpoint.command not in known} == {}


@pytest.mark.spec("E3a")
def test_the_reference_is_current() -> None:
    wanted = reference(ENDPOINTS)
    assert DOCS.read_text() == wanted, "run `python -m holdfast.serve.api docs/api-http.md`"


@pytest.mark.spec("E3a")
def test_a_project_must_be_named_if_several_are_served(asking: Cli) -> None:
    asking.make_pending(*WRITE)
    other = asking.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    assert asking.run("call", "--json", *WRITE, cwd=other).code == 4
    with daemon(asking, "--all") as running:
        client = running.local()
        projects = client.get("/api/projects").json()["projects"]
        assert sorted((project["name"], project["pending"]) for project in projects) == [("other", 1), ("project", 1)]
        assert client.get("/api/calls").status_code == 400
        assert client.get(f"/api/calls?project={projects[0]['key']}").status_code == 200
        assert client.get("/api/calls?project=0000000000000000").status_code == 404
        assert len(pending(client)) == 2
