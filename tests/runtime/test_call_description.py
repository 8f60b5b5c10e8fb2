"""What interfaces say about a pending call: the caller, what it touches, what an approval is bound to."""

from __future__ import annotations

from hypothesis import given
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
from holdfast.contract.json import Args
from holdfast.contract.tool import Reach, Tool
from holdfast.contract.widening import Widening
from holdfast.rules.decider import CHANGED
from holdfast.runtime.call_description import (
    arguments_beside_preview,
    bound_facts,
    caller_facts,
    intentions,
    is_definition,
    preview_label,
    preview_text,
    run_conditions,
    stands_alone,
    touches,
    widening_of,
)
from holdfast.text.diff import unified_diff
from holdfast.text.diff_lines import FileChange
from tests.text.strategies import ANY_TEXT


def pending(args: Args | None = None, proposal: Proposal | None = None, source: str = "default") -> PendingCall:
    call = Call("call-1", "tool.run", "run", args or {}, Caller(), "/project")
    return PendingCall(
        call=call, state=State.PENDING, digest="1" * 64, definition_digest="2" * 64, preview="run: x", held_at=0.0,
        decision=Decision(Verdict.ASK, source, "reason"), proposal=proposal,
    )  # fmt: skip


def proposed(preview: str = "", **fields: object) -> Proposal:
    proposal = Proposal(tool_name="tool.run", summary="summary", risk=Risk.LOW, payload={}, preview=preview)
    return replace(proposal, **fields)


def test_the_caller_is_named_from_the_interface_to_the_document() -> None:
    caller = Caller(interface="mcp", agent="coder", provider="acme/m1", document="/project/a/fix.chat", session="s1")
    assert list(caller_facts(caller, "/project")) == [
        ("interface", "mcp"),
        ("agent", "coder"),
        ("provider", "acme/m1"),
        ("session", "s1"),
        ("document", "a/fix.chat"),
    ]


def test_a_changed_definition_is_recognised_by_its_decision() -> None:
    assert is_definition(pending(source=CHANGED)) and not is_definition(pending())


def test_a_preview_is_a_diff_what_runs_or_any_other() -> None:
    assert preview_label(pending(proposal=proposed("x", preview_kind="diff"))) == "diff"
    assert preview_label(pending(proposal=proposed("x", surroundings=RunConditions(sandbox="contained")))) == "runs"
    assert preview_label(pending(proposal=proposed("x"))) == "preview"
    assert preview_text(pending(proposal=proposed("x\n\n"))) == "x"
    assert preview_text(pending()) == ""


def test_conditions_and_intentions_are_those_that_have_words() -> None:
    around = RunConditions(where="./a", undo="can be undone")
    shown = pending({"label": "why"}, proposed("ls", surroundings=around))
    assert list(run_conditions(shown)) == [("where", "./a"), ("undo", "can be undone")]
    assert list(intentions(shown)) == [("label", "why"), ("does", "summary")]
    assert list(intentions(pending({"label": "why"}))) == []


def test_an_approval_is_bound_to_files_and_preconditions() -> None:
    fact = Precondition(kind="file", subject="/a", value="3" * 4)
    bound = replace(pending(proposal=proposed(preconditions=(fact,))), files=(NamedFile("b.sh", "4" * 4),))
    assert list(bound_facts(bound)) == [("file", "b.sh = 4444"), ("needs", "file /a = 3333")]


def test_arguments_that_the_preview_shows_are_left_out() -> None:
    args: Args = {"command": "ls", "timeout": None, "cwd": "a"}
    assert arguments_beside_preview(pending(args, proposed("ls\n"))) == {"cwd": "a"}


def test_a_diff_touches_its_files() -> None:
    diff = unified_diff("a\n", "b\nc\n", "x.txt")
    touched = touches(pending({"path": "x.txt"}, proposed(diff, preview_kind="diff")))
    assert touched.changes == (FileChange("x.txt", "changed", 2, 1),)
    assert touched.paths == ()


def test_a_changed_definition_touches_no_file() -> None:
    diff = unified_diff("a\n", "b\n", "tool")
    assert not touches(pending({}, proposed(diff, preview_kind="diff"), CHANGED))


def test_a_command_names_its_programs() -> None:
    touched = touches(pending({"command": "cd a && git push | tee log; git status"}))
    assert touched.programs == ("cd", "git", "tee") and not touched.other_programs
    assert touches(pending({"command": "$EDITOR x"})).other_programs
    assert touches(pending({"command": "x" * 5000})).other_programs


def test_a_tool_says_its_hosts_and_paths() -> None:
    tool = Tool(
        name="tool.run", reaches=lambda args: Reach(("a.example",), sends=True), touches=lambda args: ["/a", "/b"]
    )
    touched = touches(pending({}), tool)
    assert (touched.hosts, touched.sends, touched.paths) == (("a.example",), True, ("/a", "/b"))


def test_hosts_of_the_arguments_and_of_the_wider_sandbox_count() -> None:
    call = pending({"url": "https://a.example/x"})
    wide = replace(
        call, call=replace(call.call, widening=Widening(hosts=("b.example",))), widened=Widening(network=True)
    )
    assert touches(wide).hosts == ("a.example", "b.example")
    assert widening_of(wide) == Widening(hosts=("b.example",), network=True)


def test_a_tool_that_fails_to_say_its_hosts_may_send() -> None:
    def broken(args: Args) -> Reach:
        raise KeyError

    def no_paths(args: Args) -> list[str]:
        raise KeyError

    touched = touches(pending({"url": "x"}), Tool(name="tool.run", reaches=broken, touches=no_paths))
    assert (touched.hosts, touched.sends, touched.paths) == ((), True, ())


@given(ANY_TEXT)
def test_any_text_can_be_described(text: str) -> None:
    args: Args = {"command": text, "url": text, "path": text, "label": text}
    touches(pending(args, proposed(text, preview_kind="diff")))


def test_a_call_stands_alone_if_its_approval_does_more_than_run_it() -> None:
    plain = pending()
    assert not stands_alone(plain)
    assert stands_alone(pending(source=CHANGED))
    assert stands_alone(replace(plain, secrets=(".env",)))
    assert stands_alone(replace(plain, approvals_needed=2))
    assert stands_alone(replace(plain, call=replace(plain.call, widening=Widening(network=True))))
