"""A proposal is shown whole, escaped, with secrets masked and nothing of the call as markup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.call import (
    Call,
    Caller,
    Decision,
    NamedFile,
    PendingCall,
    Precondition,
    Proposal,
    RunConditions,
)
from holdfast.contract.enums import Risk, State, Verdict
from holdfast.contract.json import Args, Json
from holdfast.contract.tool import Reach, Tool
from holdfast.contract.widening import Widening
from holdfast.rules.decider import CHANGED, NOT_ASKED, DecisionExplanation, ExplainedStep
from holdfast.rules.shell.parts import JudgedPart
from holdfast.serve.proposal_view import (
    arguments_html,
    caller_html,
    decision_html,
    masked_call,
    proposal_html,
    risk_html,
    touches_html,
)
from holdfast.serve.text_view import visible_line
from holdfast.store.redact import Redactor
from holdfast.text.diff import unified_diff
from holdfast.text.escape import escape
from holdfast.text.pretty_json import pretty_json
from tests.serve.hostile_text import HOSTILE
from tests.serve.html_tree import Node, parse
from tests.soak import rounds

pytestmark = pytest.mark.spec("O1d")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=6,
)


def pending(args: Args | None = None, proposal: Proposal | None = None, source: str = "default") -> PendingCall:
    call = Call("call-1", "shell.exec", "bash", args or {}, Caller(), "/project")
    return PendingCall(
        call=call, state=State.PENDING, digest="1" * 64, definition_digest="2" * 64, preview="bash: x", held_at=0.0,
        decision=Decision(Verdict.ASK, source, "reason"), proposal=proposal,
    )  # fmt: skip


def proposed(preview: str = "", **fields: object) -> Proposal:
    made = Proposal(tool_name="shell.exec", summary="summary", risk=Risk.LOW, payload={}, preview=preview)
    return replace(made, **fields)


def facts(root: Node) -> dict[str, str]:
    names, values = root.all("dt"), root.all("dd")
    return {name.text(): value.text() for name, value in zip(names, values, strict=True)}


def cells(root: Node) -> dict[str, Node]:
    table = root.all("table", "arguments")[0]
    return {row.all("th")[0].text(): row.all("td")[0] for row in table.all("tr")}


def block_text(node: Node) -> str:
    """The text of a block, without the newline that ends its last line."""
    return node.all("pre", "block")[0].text().removesuffix("\n")


def warnings(root: Node) -> list[str]:
    return [node.text() for node in root.all("p", "warning")]


@given(HOSTILE)
@settings(max_examples=rounds(60, 1500))
def test_every_field_of_a_call_may_be_hostile(text: str) -> None:
    caller = Caller(interface=text, agent=text, provider=text, skill=text, session=text, document=text)
    call = pending(
        {"command": text, "label": text, text: text, "n": [text, {text: text}]},
        proposed(
            text,
            summary=text,
            surroundings=RunConditions(where=text, sandbox=text, undo=text, lasts=text),
            preconditions=(Precondition(kind="file", subject=text, value=text),),
        ),
        text,
    )
    call = replace(
        call,
        call=replace(call.call, caller=caller, cwd=text, tool=text, name_used=text),
        files=(NamedFile(text, "3" * 8),),
        secrets=(text,),
        widened=Widening(hosts=(text,), read=(text,), write=(text,)),
    )
    step = ExplainedStep(stage=text, source=text, answer=text, reason=text, decided=True)
    part = JudgedPart(kind="command", text=text, inside=text, rule=text, reason=text)
    found = DecisionExplanation(tool=text, decision=call.decision, steps=(step,), parts=(part,))
    parse(proposal_html(call))
    parse(proposal_html(replace(call, proposal=proposed(text, preview_kind="diff", preview_cut=True))))
    parse(proposal_html(replace(call, proposal=None)))
    parse(touches_html(call))
    parse(caller_html(call))
    parse(decision_html(call.decision, found))


@given(HOSTILE.filter(lambda text: text.strip("\n") != ""))
def test_a_command_is_shown_whole(text: str) -> None:
    around = RunConditions(sandbox="contained")
    root = parse(proposal_html(pending({"command": text}, proposed(text, surroundings=around))))
    shown = root.all("pre", "command")[0]
    lines = text.rstrip("\n").split("\n")
    assert len(shown.all("span", "ln")) == len(lines) - sum(
        int(gap.text()[1:].split()[0].replace(",", "")) for gap in shown.all("span", "gap")
    )
    for row in shown.all("span", "ln"):
        assert row.text() == f"{visible_line(lines[int(row.attributes['data-line']) - 1])}\n"


@given(st.dictionaries(HOSTILE, JSON, max_size=4))
@settings(max_examples=rounds(60, 1500))
def test_arguments_are_shown_whole(args: Args) -> None:
    root = parse(arguments_html(args, redactor=Redactor()))
    if not args:
        assert root.text() == "No arguments."
        return
    rows = root.all("table", "arguments")[0].children[0]
    assert isinstance(rows, Node)
    assert len(rows.children) == len(args)
    for row, (name, value) in zip(rows.children, args.items(), strict=True):
        assert isinstance(row, Node)
        head, cell = row.children
        assert isinstance(head, Node) and isinstance(cell, Node)
        assert head.text() == escape(name)
        text = value if isinstance(value, str) else pretty_json(value)
        if value is None:
            assert cell.text() == "no value"
        elif "\n" not in text and text and cell.all("code"):
            assert cell.all("code")[0].text() == escape(text)
        elif text:
            shown = cell.all("pre", "block")[0]
            gaps = sum(int(gap.text()[1:].split()[0].replace(",", "")) for gap in shown.all("span", "gap"))
            lines = text.split("\n")
            lines = lines[:-1] if len(lines) > 1 and lines[-1] == "" else lines
            assert len(shown.all("span", "ln")) + gaps == len(lines)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("5", "5"),
        (5, "5 number"),
        (None, "no value"),
        (True, "true true or false"),
        ("", "empty text"),
        ("  ", "   2 characters of white space"),
        ([], "[] list"),
        ({}, "{} object"),
        ("x" * 201, f"{'x' * 201} 201 characters"),
    ],
)
def test_a_value_is_told_from_a_text_that_looks_like_it(value: Json, shown: str) -> None:
    assert cells(parse(arguments_html({"a": value}, redactor=Redactor())))["a"].text() == shown


def test_secrets_are_masked_in_arguments_and_preview() -> None:
    redactor = Redactor()
    redactor.add("TOKEN", "hunter2hunter2")
    call = pending({"command": "curl hunter2hunter2", "x": "hunter2hunter2"}, proposed("curl hunter2hunter2"))
    shown = proposal_html(call, redactor=redactor)
    assert "hunter2" not in shown
    assert shown.count("[secret TOKEN]") == 2
    assert masked_call(call, redactor).digest == call.digest
    assert cells(parse(arguments_html(call.call.args, redactor=redactor)))["x"].text() == "[secret TOKEN]"


def test_what_looks_like_a_token_is_masked_without_a_redactor() -> None:
    shown = proposal_html(pending({"command": "x"}, proposed("curl -u ghp_" + "a1" * 20)))
    assert "[secret github_token]" in shown


def test_the_conditions_of_a_command_are_shown() -> None:
    around = RunConditions(where="./build", sandbox="contained", undo="can be undone", lasts="until stopped")
    call = pending({"command": "make", "label": "Build it"}, proposed("make", surroundings=around))
    shown = facts(parse(proposal_html(call)))
    assert {"Label": "Build it", "Does": "summary", "Where": "./build", "Sandbox": "contained"}.items() <= shown.items()
    assert (shown["Undo"], shown["Lasts"]) == ("can be undone", "until stopped")


def test_what_an_approval_is_bound_to_is_shown() -> None:
    fact = Precondition(kind="file", subject="/project/a", value="3" * 64)
    call = replace(pending({}, proposed(preconditions=(fact,))), files=(NamedFile("run.sh", "4" * 64),))
    assert facts(parse(proposal_html(call))) == {
        "Call": "call-1",
        "Tool": "shell.exec, called as bash",
        "Definition": "2" * 64,
        "Folder": "/project",
        "Digest": "1" * 64,
        "File": f"run.sh = {'4' * 64}",
        "Needs": f"file /project/a = {'3' * 64}",
    }


def test_wider_access_and_secret_files_are_warned_about() -> None:
    call = replace(pending({"command": "x"}), secrets=(".env",), widened=Widening(outside=True))
    assert warnings(parse(proposal_html(call))) == [
        "Approving lets the call read files that may hold secrets: .env",
        "Beyond the sandbox: outside the sandbox",
    ]


def test_a_cut_preview_is_said_and_the_whole_content_follows() -> None:
    content = "".join(f"line {number}\n" for number in range(5000))
    diff = unified_diff(None, content, "a.txt", max_lines=20)
    call = pending({"path": "a.txt", "content": content}, proposed(diff, preview_kind="diff", preview_cut=True))
    root = parse(proposal_html(call))
    assert warnings(root) == ["The diff is too long to be shown whole. The arguments below it are complete."]
    assert block_text(cells(root)["content"]) == content.removesuffix("\n")


def test_arguments_that_the_preview_shows_are_not_repeated() -> None:
    root = parse(proposal_html(pending({"command": "make", "timeout": None}, proposed("make"))))
    assert not root.all("table", "arguments")


def test_a_changed_definition_is_shown_with_all_arguments_and_not_escaped_twice() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+‹\\u{202e}›\n"
    root = parse(proposal_html(pending({"x": 1}, proposed(diff, preview_kind="diff"), CHANGED)))
    assert warnings(root)[0].startswith("The definition of this tool is new or changed.")
    assert root.all("ins")[0].text() == "+‹\\u{202e}›\n"
    assert list(cells(root)) == ["x"]


def test_long_parts_can_be_folded_and_state_their_size() -> None:
    command = "echo\n" * 100
    root = parse(proposal_html(pending({"command": command, "note": "x" * 5000}, proposed(command))))
    folds = root.all("details", "fold")
    assert [fold.all("summary")[0].text() for fold in folds] == [
        "Preview, 100 lines",
        "Text command, 100 lines",
        "Text note, 5,000 characters",
    ]
    assert all("open" in fold.attributes for fold in folds)


def test_what_a_call_touches_is_listed() -> None:
    diff = unified_diff("a\n", "b\nc\n", "x.txt") + unified_diff(None, "n\n", "<new>.txt")
    root = parse(touches_html(pending({}, proposed(diff, preview_kind="diff"))))
    assert [item.text() for item in root.all("li")] == ["x.txt +2 −1", "created <new>.txt +1 −0"]
    tool = Tool(name="web.post", reaches=lambda args: Reach(("a.example",), sends=True))
    shown = parse(touches_html(pending({"command": "git push | tee log"}), tool))
    assert [item.text() for item in shown.all("li")] == ["runs git, tee", "sends to a.example"]
    assert touches_html(pending({"x": 1})) == ""


def test_many_files_are_counted() -> None:
    diff = "".join(unified_diff("a\n", "b\n", f"{number}.txt") for number in range(30))
    items = parse(touches_html(pending({}, proposed(diff, preview_kind="diff")))).all("li")
    assert items[-1].text() == "and 22 more files"


def test_the_caller_is_named_from_the_interface_to_the_document() -> None:
    caller = Caller(interface="mcp", agent="coder", provider="acme/m1", document="/project/fix.chat")
    call = pending()
    shown = parse(caller_html(replace(call, call=replace(call.call, caller=caller)))).text()
    assert shown == "mcp ▸ agent coder ▸ model acme/m1 ▸ document fix.chat"


@pytest.mark.parametrize("risk", [*Risk, None])
def test_a_risk_is_said_in_words(risk: Risk | None) -> None:
    assert parse(risk_html(risk)).text() == ("Risk unknown" if risk is None else f"{risk.capitalize()} risk")


def test_a_decision_is_explained_step_by_step() -> None:
    decision = Decision(Verdict.ASK, "urn:holdfast:cap:protected-path", "It changes a protected path.")
    found = DecisionExplanation(
        tool="fs.write",
        decision=decision,
        steps=(
            ExplainedStep(stage="policy", source="config", answer="available"),
            ExplainedStep(stage="chain", source="urn:holdfast:approval:config", answer="approve", priority=100),
            ExplainedStep(stage="chain", source="mine", answer=NOT_ASKED),
            ExplainedStep(stage="cap", source=decision.source, answer="ask", reason=decision.reason, decided=True),
        ),
        parts=(JudgedPart(kind="command", text="ls", inside="$(…)", verdict=Verdict.APPROVE, reason="reads"),),
        depends=True,
    )
    root = parse(decision_html(decision, found))
    assert root.all("p", "why")[0].text() == "It changes a protected path. (protected path)"
    assert [item.text() for item in root.all("li")] == [
        "Tool policy config says available",
        "Rule config says approve",
        "Limit protected path says ask: It changes a protected path. decides",
        "Without an opinion: mine",
    ]
    assert [cell.text() for cell in root.all("td")] == ["command", "ls in $(…)", "approve", "reads"]
    assert "judged without arguments" in root.text()
    assert parse(decision_html(decision)).text() == "It changes a protected path. (protected path)"
