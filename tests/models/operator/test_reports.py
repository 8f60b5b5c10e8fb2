"""Reports about real and made-up results."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from holdfast import Runtime
from holdfast.contract.json import Args
from holdfast.contract.message import Message, ToolResult, ToolUse
from holdfast.models.operator.phrases import GRAMMAR
from holdfast.models.operator.reports import describe_call, report
from holdfast.runtime.runtime import Rules
from holdfast.tools import builtin_tools
from tests.models.operator.conversations import collect, message_of, you
from tests.runtime.support import open_ledger, run, yes


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\n\ndef main():\n    return os.name\n")
    (root / "empty.txt").write_text("")
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(5000)))
    (root / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    return root


async def _said(project: Path, tmp_path: Path, text: str) -> str:
    """All text of the operator while a request really runs."""
    conversation, said = [you(text)], list[str]()
    ledger = open_ledger(tmp_path / "state")
    async with Runtime(tools=builtin_tools(), root=project, ledger=ledger, asker=yes()) as runtime:
        while (answer := message_of(await collect(conversation))).tool_uses:
            said.append(answer.text)
            done = [await runtime.call(use.name, use.arguments) for use in answer.tool_uses]
            results = tuple(
                ToolResult(use.id, use.name, result.text, not result.success, result.attachments)
                for use, result in zip(answer.tool_uses, done, strict=True)
            )
            conversation += [answer, Message("user", results)]
    ledger.close()
    return "\n".join([*said, answer.text])


SAID = [
    ("read src/a.py", "Read `src/a.py`: 4 lines."),
    ("read empty.txt", "Read `empty.txt`: it is empty."),
    ("read long.txt", "Not all of it is shown: `Showing lines 1-"),
    ("read lines 1-2 of src/a.py", "Read `src/a.py`, lines 1-2: 2 lines. Not all of it is shown: `2 more lines"),
    ("read dot.png", 'Attached: `image "dot.png" (image/png, 48B)`.'),
    ("read nope.txt", "This did not succeed: read `nope.txt`."),
    ("list src", "List `src`: 1 entry."),
    ("ls", "List the project's folder: 4 entries."),
    ("find *.py", "Find files like `*.py`: 1 file (`src/a.py`)."),
    ("find *.rs", "Find files like `*.rs`: no files."),
    ("search for os", "Search for `os`: 2 matches in 1 file."),
    ("search for line in long.txt", "Search for `line` in `long.txt`: 5000 matches."),
    ("search for zebra", "Search for `zebra`: no matches."),
    ("what is 6 times 7?", "Calculate `6 * 7`: `42`."),
    ("calculate 1/0", "This did not succeed: calculate `1/0`."),
    ("run `echo hello`", "Run `echo hello`: it printed `hello`."),
    ("run `true`", "Run `true`: it printed nothing."),
    ("run `printf 'a\\nb\\nc\\n'`", "it printed 3 lines, the first `a`."),
    ("run `echo no; exit 3`", "`Command exited with code 3`"),
    ('write n.txt with "x" then read it', "Read `n.txt`: 1 line.\n\nAll 2 steps are done."),
    ('edit src/a.py: replace "main" with "go"', "Edit `src/a.py`: `Successfully replaced text in src/a.py.`"),
    ("git status", "Look at the git status: on `main`, 4 changed paths."),
    ("git log", "Look at the last commits: no commits yet."),
    ("git diff", "Look at the diff: no unstaged changes."),
]


@pytest.mark.spec("M2")
@pytest.mark.parametrize(("text", "expected"), SAID, ids=[text for text, _ in SAID])
def test_a_report_summarises_the_result(project: Path, tmp_path: Path, text: str, expected: str) -> None:
    assert expected in run(_said(project, tmp_path, text))


@pytest.mark.spec("M2")
def test_a_report_shows_foreign_text_on_one_line_and_in_backticks() -> None:
    use = ToolUse("x", "shell.exec", json.dumps({"command": "a\n\x1b[2J`b`"}))
    said = report(use, ToolResult("x", "shell.exec", "\x1b]0;evil\x07\u202e" + "y" * 5000))
    assert "\n" not in said and "\x1b" not in said and "\u202e" not in said and len(said) < 500
    assert said.startswith("Run `` a ‹\\x1b›[2J`b` ``: it printed `")


@pytest.mark.spec("M2")
def test_a_report_about_an_unknown_tool_only_counts_lines() -> None:
    said = report(ToolUse("x", "weather", "broken"), ToolResult("x", "weather", "sun\nrain"))
    assert said == "Call `weather`: 2 lines."


@pytest.mark.spec("M2", "X17")
def test_in_plan_mode_every_step_is_planned_and_reported_as_planned(project: Path) -> None:
    async def session() -> tuple[list[str], str]:
        conversation = [you("write b.txt with content 'x' then run `touch made` then read src/a.py")]
        asked: list[str] = []
        async with Runtime(tools=builtin_tools(), root=project, rules=Rules(plan=True)) as runtime:
            while (answer := message_of(await collect(conversation))).tool_uses:
                (use,) = answer.tool_uses
                asked.append(use.name)
                result = await runtime.call(use.name, use.arguments)
                told = ToolResult(use.id, use.name, result.text, not result.success)
                conversation += [answer, Message("user", (told,))]
        return asked, "\n".join(message.text for message in [*conversation, answer])

    asked, said = run(session())
    assert asked == ["file.write", "shell.exec", "file.read"]
    assert "Only planned: write `b.txt`." in said and "Only planned: run `touch made`." in said
    assert "Read `src/a.py`: 4 lines." in said
    assert not (project / "b.txt").exists() and not (project / "made").exists()


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("arguments", "output", "said"),
    [
        ('{"command":"ls"}', "(no output)\n\n[Kept: a]", "Run `ls`: it printed nothing. `[Kept: a]`"),
        (
            '{"command":"ls"}',
            'The arguments were changed to {"command":"pwd"} before it ran.\n\n/home',
            "You changed it first. Run `pwd`: it printed `/home`.",
        ),
        ('{"command": "x"', "done", "Run something: it printed `done`."),
    ],
    ids=["notes of holdfast are not printed by the program", "changed by a person", "broken arguments"],
)
def test_each_kind_of_result_is_reported_accordingly(arguments: str, output: str, said: str) -> None:
    assert report(ToolUse("a", "shell.exec", arguments), ToolResult("a", "shell.exec", output)) == said


@pytest.mark.spec("M2")
@pytest.mark.parametrize("tool", sorted({tool.name for tool in builtin_tools()}))
def test_any_call_can_be_described_whatever_its_arguments(tool: str) -> None:
    for arguments in ("", "{", "[]", "{}", '{"path": null}', '{"command": 3, "offset": "x"}'):
        for error in (True, False):
            assert report(ToolUse("a", tool, arguments), ToolResult("a", tool, "x", error))


@pytest.mark.spec("M2")
@pytest.mark.parametrize("tool", sorted(GRAMMAR))
def test_every_tool_of_the_grammar_is_described_in_words(tool: str) -> None:
    assert not describe_call(tool, {}).startswith("call ")


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("tool", "args", "output", "said"),
    [
        ("web.fetch", {"url": "https://a.example", "offset": 9}, "https://a.example/ (200 OK, text/html)\n\nHi\nHo",
         "Fetch `https://a.example`: `https://a.example/ (200 OK, text/html)`."),
        ("web.search", {"query": "x", "limit": 2}, "1. A\n   https://a.example/\n2. B\n   https://b.example/\n   text",
         "Search the web for `x`: 2 results."),
        ("web.search", {"query": "x"}, "duckduckgo found nothing for 'x'.",
         "Search the web for `x`: `duckduckgo found nothing for 'x'.`"),
        ("browser.navigate", {"url": "https://a.example"}, "https://a.example/ «A»\ne1 link\nHi",
         "Open in the browser `https://a.example`: `https://a.example/ «A»`."),
        ("browser.wait", {"seconds": 1}, "x\ny", "Wait on the open page: 2 lines."),
    ],
)  # fmt: skip
def test_results_of_the_web_are_reported_in_words(tool: str, args: Args, output: str, said: str) -> None:
    assert report(ToolUse("a", tool, json.dumps(args)), ToolResult("a", tool, output)) == said
