"""Problems of a reply are detected, named and located; parsing never raises."""

from __future__ import annotations

import pytest

from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.syntax import ProblemKind, SyntaxProblem

from .parsing import calls, faults, only_problem
from .strategies import EDIT, WRITE


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("[/write_file]", "[/write_file]"),
        ("[/edit_file]", "[/edit_file]"),
        ("x [/search_code] y", "[/search_code]"),
        ("[/call]", "[/call]"),
    ],
)
def test_an_unopened_closing_tag_is_reported(text: str, tag: str) -> None:
    problem = only_problem(text)
    assert (problem.kind, problem.tag) == (ProblemKind.UNOPENED, tag)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("[write_file]\npath: a\n---content---\n[git_status]\n", "[write_file]"),
        ("[edit_file]\npath: a\n[git_status]\n", "[edit_file]"),
        ("I use [write_file] and [git_status].", "[write_file]"),
        ('[call: a]\n{"b": 1}\n[git_status]', "[call: a]"),
        ('[call: a]\n{"b": "[/call]\n[git_status]', "[call: a]"),
        ("[call: a] [git_status]", "[call: a]"),
        ("[call: a", "[call: a"),
        ("[call: a\n[git_log", "[call: a"),
        ("[read_file: a", "[read_file:"),
        ("[read_file: a\n", "[read_file:"),
        ("[read_file: a[b] [git_status]", "[read_file:"),
        ("[write_file]\npath: a\n---content---\n[write_file]\n[/write_file]\n[git_status]\n", "[write_file]"),
        ("[write_file]\n```\n[write_file]\npath: a\n---content---\nx\n[/write_file]\n```\n", "[write_file]"),
        ("[write_file]\n ~~~\n[write_file]\npath: a\n---content---\nx\n[/write_file]\n ~~~\n", "[write_file]"),
        ("[write_file]\npath: a\n---content---\nx", "[write_file]"),
        ('[call: a]\n{"b": 1}\nNow I wait.', "[call: a]"),
        ('[call: a]\n{"b": 1}\n[/cal', "[call: a]"),
        ('[call: a]\n{"b": 1}\n[call: c]\n{"d": 2}', "[call: a]"),
        ('[call: a]\n{"b": 1}\n```', "[call: a]"),
        ('[call: a]\n```json\n{"b": 1}', "[call: a]"),
        ('[call: a]\n```json\n{"b": 1}\n```\nNow I wait.', "[call: a]"),
        ('[call: a]\n{"b": 1, "b": 2}', "[call: a]"),
        ('[call: a]\n{"b": 1', "[call: a]"),
        ("[call: ]\n{}", "[call: ]"),
        ("[call: a]\n", "[call: a]"),
    ],
)
def test_an_unclosed_call_is_not_made(text: str, tag: str) -> None:
    assert calls(text) == []
    problem = only_problem(text)
    assert (problem.kind, problem.tag) == (ProblemKind.UNCLOSED, tag)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "body",
    [
        "path: a\n---search---\nold",
        "path: a\n---search---\nold\n---replace---\n",
        "path: a\n---search---\n \n---replace---\nnew",
        "path: a\n---replace---\nnew",
        "---search---\nold\n---replace---\nnew",
        "path: a\n---search---\nold\n---replace---\nnew\n---replace---\nnewer",
        "path: a\n---search---\nold\n---replace---\nnew\n\nThis fixes it.",
        "path: a\n---search---\nold\n---replace---\nnew\r\n \r\nThis fixes it.",
        "path: a\n<<<<<<< S\nold\n=======\nnew\n\nThis fixes it.",
        "path: a\n<<<<<<< S\nold\n=======\nnew\n>>>>>>> R\nThis fixes it.",
        "path: a\n---search---\nold\n---replace---\nnew\n[git_status]",
        "path: a\n---search---\nold\n---replace---\nnew\n[/call]",
        "path: a\n---search---\nold\n---replace---\nnew\n=== tool_result: edit_file ===",
        "path: a\n---search---\nold\n---replace---\n```\nnew\n```",
        "path: a\n---search---\nold\n---replace---\nnew\n[/edit_fil",
        "path: a\n---search---\nold\n---replace---\nnew\n</edit_file>",
        "path: a\n---search---\nold\n---replace---\nnew\n---end---",
        "path: a\n[git_status]\n---search---\nold\n---replace---\nnew",
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_an_unclosed_edit_whose_end_is_uncertain_is_not_made(body: str, end: str) -> None:
    assert calls(f"[edit_file]\n{body}{end}") == []
    assert only_problem(f"[edit_file]\n{body}{end}").kind is ProblemKind.UNCLOSED


@pytest.mark.spec("M3")
def test_a_call_between_a_tag_and_its_repetition_is_reported() -> None:
    text = "I could [write_file] or [git_status].\n" + WRITE.format("a")
    assert parse(text).problems == (SyntaxProblem(ProblemKind.UNCLOSED, "[write_file]", 1),)
    assert [name for name, _ in calls(text)] == ["file.write"]


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "[write_file]\npath: a\n[/write_file]",
        "[write_file]\n---content---\nx\n[/write_file]",
        "[write_file]\npath:\n---content---\nx\n[/write_file]",
        "[write_file]\npath: a\n[git_status]\n---content---\nx\n[/write_file]",
        "[write_file][/write_file]",
        "[search_code]\n[/search_code]",
        "[search_code]\nquery: \n[/search_code]",
        "[call: a][/call]",
        "[call: a]\nb[/call]",
        "[call: a]\n[1][/call]",
        '[call: a]\n{"b": 1, "b": 2}\n[/call]',
        '[call: a]\n{"b": NaN}\n[/call]',
        '[call: a]\n{"b": "line\nline"}\n[/call]',
        '[call: a]\n{"b": 1}}\n[/call]',
        '[call: a]\n{"b": 1} {"c": 2}\n[/call]',
        '[call: a]\n{"b": [1}\n[/call]',
        '[call: a]\n{"b": {[/call]',
        '[call: a]\n{"b": "\ud800"}\n[/call]',
        '[call: a]\n{"b": 1e999}\n[/call]',
        "[call: a]\n" + '{"b":' * 300 + "1" + "}" * 300 + "[/call]",
        '[call: a]\n```json\n{"b": 1}\n[/call]',
        '[call: a]\n````json\n{"b": 1}\n```\n[/call]',
        "[call: ]{}[/call]",
    ],
)
def test_an_unreadable_block_is_reported(text: str) -> None:
    assert calls(text) == []
    assert faults(text) == [ProblemKind.UNREADABLE]


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "path: a\n",
        "path: a\n---search---\nold\n",
        "path: a\n---replace---\nnew\n---search---\nold\n",
        "---search---\nold\n---replace---\nnew\n",
        "path: a\n---search---\nold\n---replace---\nnew\n---search---\nold\n---replace---\nnew\n",
        "path: a\n---replace---\nnew\n---replace---\nnew\n",
        "path: a\n<<<<<<< S\nold\n=======\nnew\n=======\nmore\n",
        "path: a\n<<<<<<< S\nold\n=======\nnew\n>>>>>>> R\n<<<<<<< S\nold\n=======\nnew\n>>>>>>> R\n",
        "path: a\n<<<<<<< S\nold\n=======\nnew\n>>>>>>> R\nand more",
        "path: a\nold content:\nold\n",
        "path: a\nnew content:\nnew\nold content:\nold\n",
        "path: a\n---old---\nold\n",
        "path: a\n---old---\nold\n---new---\nnew\n---end---\n",
        "path: a\n--- | ---\nold\n---|---\nnew\n",
        "path: a\n[git_status]\n---search---\nold\n---replace---\nnew\n",
        "path: a\n<<<<<<< S\nx\n=======\n---replace---\n>>>>>>> R\n",
        "path: a\n<<<<<<< S\nx\n||||||| base\ny\n=======\nz\n>>>>>>> R\n",
        "path: a\nold content:\nfoo\n---a---\nold content: q\nnew content:\nbar\n---b---\nz\n",
        "path: a\nold content:\nx\n---search---\nnew content:\ny\n",
        "path: a\n---edit---\nold content:\nx\nnew content:\ny\n",
        "path: a\n---old---\nx\n  ---replace---\ny\n",
    ],
)
def test_an_unreadable_edit_is_reported(body: str) -> None:
    text = f"[edit_file]\n{body}[/edit_file]"
    assert calls(text) == []
    assert parse(text).problems == (SyntaxProblem(ProblemKind.UNREADABLE_EDIT, "[edit_file]", 1),)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("```\n[git_status]", "[git_status]"),
        ("``` [read_file: a]", "[read_file:"),
        ("a\n~~~\nb\n[call: x]\n{}\n[/call]\n", "[call:"),
        ("```\n[git_log]\n`` `\n``` x\n", "[git_log]"),
        ("````\n[git_log]\n```\n", "[git_log]"),
        ("```\n[git_log]\n~~~\n", "[git_log]"),
        ("```\n1. a\n    ```\n[git_log]", "[git_log]"),
        ("say ``` and\n[git_log]\n", "[git_log]"),
    ],
)
def test_a_tag_in_an_unclosed_fence_is_reported(text: str, tag: str) -> None:
    assert calls(text) == []
    problem = only_problem(text)
    assert (problem.kind, problem.tag) == (ProblemKind.OPEN_FENCE, tag)


@pytest.mark.spec("M3")
def test_an_unclosed_fence_without_a_tag_is_accepted() -> None:
    assert faults("```python\nprint(1)\n") == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "run", "line"),
    [
        ("Use ``` for fences:\n```\n[git_log]\n```\nDone.", "```", 4),
        ("[git_log]\n````\n", "````", 2),
        ("[call: a]{}[/call]\n- ~~~\n", "~~~", 2),
        (WRITE.format("a") + "\n```", "```", 6),
    ],
)
def test_an_unclosed_fence_after_a_call_is_reported(text: str, run: str, line: int) -> None:
    assert len(calls(text)) == 1
    assert parse(text).problems == (SyntaxProblem(ProblemKind.OPEN_FENCE, run, line),)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("block", [WRITE, EDIT], ids=["write", "edit"])
@pytest.mark.parametrize("body", ["a {} b", "End it with {}, then [git_status].", "- {} ends it", "> {} ends it"])
def test_a_closing_tag_within_a_line_makes_the_block_unreadable(block: str, body: str) -> None:
    tag = block.rpartition("\n")[2]
    text = block.format("x").replace(f"\n{tag}", "\n" + body.format(tag))
    fault = ProblemKind.UNREADABLE if block is WRITE else ProblemKind.UNREADABLE_EDIT
    opening = tag.replace("/", "")
    assert parse(f"{text}\n{tag}\n[git_log]").problems == (SyntaxProblem(fault, opening, 1),)
    assert "git.status" not in [name for name, _ in calls(f"{text}\n{tag}")]
    assert parse(text).problems == (SyntaxProblem(ProblemKind.UNCLOSED, opening, 1),)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "behind",
    ["\n```python\nx\n```", " ```\nx\n```\n", "\n\n \n~~~\nx\n~~~\n", "\n---content---\nx", "\nx\n[/write_file]\n"],
)
@pytest.mark.parametrize("bracket", ["[write_file: a.py]", "[write_file: a[0].py]", "[write_file: a[[0]].py]"])
def test_content_after_an_empty_write_is_reported(bracket: str, behind: str) -> None:
    text = f"So:\n{bracket}{behind}"
    assert [name for name, _ in calls(text)] == ["file.write"]
    assert parse(text).problems == (SyntaxProblem(ProblemKind.UNREADABLE, "[write_file:", 2),)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("behind", ["", "\n", "\nSo:\n```\nx\n```\n", "\n---\n", "\n``x``", "\n[git_log]", "`"])
def test_an_empty_write_without_content_is_accepted(behind: str) -> None:
    assert faults(f"[write_file: a.py]{behind}") == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize("frame", ["=== tool_result: read_file ===", "=== tool_error: x", "=== tool_result:"])
@pytest.mark.parametrize(
    "place",
    ["{}", "a\n{}", "a {} b", "```\n{}\n```\n", "``` {} ```", "~~~\n{}", "[search_code] {}"],
)
def test_a_fabricated_result_is_reported(frame: str, place: str) -> None:
    assert faults(place.format(frame)) == [ProblemKind.FABRICATED]


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        WRITE.format("=== tool_result: a ==="),
        '[call: a]{"b": "=== tool_result: a ==="}[/call]',
        "[search_code: === tool_result:]",
        "== tool_result:",
        "=== tool_results",
    ],
)
def test_a_frame_in_a_body_or_an_argument_is_ignored(text: str) -> None:
    assert faults(text) == []


@pytest.mark.spec("M3")
def test_a_problem_has_its_line_number() -> None:
    text = "a\r\n[/call]\n```\n=== tool_error: x\n```\n[read_file: a[\nb]\n[edit_file]\n[/edit_file]\n\n```\n[git_log]"
    assert parse(text).problems == (
        SyntaxProblem(ProblemKind.UNOPENED, "[/call]", 2),
        SyntaxProblem(ProblemKind.FABRICATED, "=== tool_error:", 4),
        SyntaxProblem(ProblemKind.UNCLOSED, "[read_file:", 6),
        SyntaxProblem(ProblemKind.UNREADABLE_EDIT, "[edit_file]", 8),
        SyntaxProblem(ProblemKind.OPEN_FENCE, "[git_log]", 11),
    )


@pytest.mark.spec("M3")
def test_calls_besides_a_problem_are_still_reported() -> None:
    text = "[git_status]\n[/call]\n[edit_file]\n[/edit_file]\n[git_log]"
    assert [name for name, _ in calls(text)] == ["git.status", "git.log"]
    assert faults(text) == [ProblemKind.UNOPENED, ProblemKind.UNREADABLE_EDIT]
