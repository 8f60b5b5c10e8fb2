"""The real commands on a terminal: no line of the screen starts with untrusted text.

All untrusted text here is made of one letter that none of our own texts contains. A line that contains this letter
without the gutter, or without one of our labels before it, is a leak.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast.contract.elicitation import FormRequest, SamplingMessage, SamplingRequest, UrlRequest
from tests.cli.command_line import Cli
from tests.cli.documents import NAME, write_calls
from tests.cli.file_changes import change_files
from tests.cli.mcp_servers import edit_server, serving
from tests.cli.screen import screen_of
from tests.cli.terminal import Terminal
from tests.cli.test_elicitation import elicits

__all__ = ["serving"]

pytestmark = pytest.mark.spec("O1c")

WIDTHS = pytest.mark.parametrize("columns", [20, 47, 100])
HOSTILE = "\n".join(
    [
        "Ж" * 300,
        "Ж" + " " * 300 + "Ж",
        " " * 80 + "Ж",
        "  risk    Ж",
        "May Ж run?",
        "\x1b[2J\x1b[HЖ\rЖ\bЖ\tЖ\u202eЖ\xa0Ж\u0301",
        "`Ж Ж` " * 40,
        "[39 lines hidden; Ж]",
        "> Ж",
        "Approve it? [y/N] Ж",
    ]
)
LABELLED = re.compile(r"  (?! )[a-z :]+ |  [a-z0-9]{8}-1  |Error: |✗ |✓ |    ")
"""What may precede untrusted text on a line: a label, an id, a sign, the indent of a continuation line."""
PROMPT = "leave it pending\n> "


def check(person: Terminal, columns: int) -> list[str]:
    screen = screen_of(person.raw, columns)
    assert any("Ж" in line for line in screen), "\n".join(screen)
    leaks = [line for line in screen if "Ж" in line and not line.startswith(("│ ", "│↳")) and not LABELLED.match(line)]
    assert leaks == []
    assert not [line for line in screen if line.startswith("Ж")]
    return screen


def look(cli: Cli, columns: int, *args: str) -> None:
    with Terminal(cli, *args, columns=columns, rows=3000) as person:
        person.finish()
        check(person, columns)


@WIDTHS
def test_a_command_in_a_project_whose_folder_has_a_forged_name(careful: Cli, columns: int) -> None:
    folder = careful.project.rename(careful.project.with_name("Ж\x1b[2J\nApproved by Ж\n  risk    Ж"))
    forged = Cli(folder, careful.env)
    args = ("--set", "sandbox.mode=off", "call", "--pending", "shell.exec", "command=ls > x")
    parked = forged.run(*args)
    assert parked.code == 4 and "\x1b" not in parked.err and "\nApproved by" not in parked.err
    call_id = forged.run("pending", "--json").json["call_id"]
    for shown in (("pending",), ("pending", call_id)):
        assert "\x1b" not in forged.run(*shown).out
        look(forged, columns, *shown)
    for shown in (("--set", "sandbox.mode=off", "doctor"), ("config", "path")):
        with Terminal(forged, *shown, columns=columns, rows=3000) as person:
            person.finish()
            lines = screen_of(person.raw, columns)
            assert any("Ж" in line for line in lines)
            assert not [line for line in lines if line.startswith(("Ж", "  risk", "Approved"))]


@WIDTHS
def test_a_pending_command(careful: Cli, columns: int) -> None:
    args = ("call", "shell.exec", f"command={HOSTILE}", f"label={HOSTILE}")
    with Terminal(careful, *args, columns=columns, rows=3000) as person:
        person.expect("details")
        person.expect("> ")
        person.type("d")
        person.expect("digest")
        person.expect("details")
        person.expect("> ")
        person.type("q")
        assert person.finish() == 4
        check(person, columns)
    call_id = careful.run("pending", "--json").json["call_id"]
    for args in (("pending",), ("pending", call_id), ("ledger",), ("ledger", "show", call_id)):
        look(careful, columns, *args)
    careful.forget_shown()
    with Terminal(careful, "approve", call_id, columns=columns, rows=3000) as person:
        person.expect("\nApprove this? [y/N] ")
        person.type("n")
        person.finish()
        check(person, columns)
    careful.run("reject", call_id, "-m", HOSTILE)
    look(careful, columns, "ledger", "show", call_id)


@WIDTHS
def test_a_change_and_its_undo(careful: Cli, columns: int) -> None:
    name = "Ж" * 60 + " contained by bubblewrap; can be undone"
    args = json.dumps({"path": name, "content": HOSTILE})
    with Terminal(careful, "call", "file.write", args, columns=columns, rows=3000) as person:
        person.expect("details")
        person.expect("> ")
        person.type("d")
        person.expect("details")
        person.expect("> ")
        person.type("a")
        person.expect("back\n> ")
        person.type("n")
        person.expect("details")
        person.expect("> ")
        person.type("q")
        person.finish()
        check(person, columns)
    call_id = change_files(careful, {name: HOSTILE})
    look(careful, columns, "changes", call_id, "--diff")
    with Terminal(careful, "undo", call_id, columns=columns, rows=3000) as person:
        person.expect("Put this back?")
        person.type("n")
        assert person.finish() == 3
        check(person, columns)


@WIDTHS
def test_a_document(careful: Cli, columns: int) -> None:
    document = write_calls(careful, HOSTILE, "echo Ж")
    document.write_text(document.read_text().replace("`c1`", "`Ж-risk`"))
    with Terminal(careful, "chat", NAME, columns=columns, rows=3000) as person:
        person.expect("details")
        person.expect("> ")
        person.type("q")
        assert person.finish() == 4
        check(person, columns)
    write_calls(careful, HOSTILE, "echo Ж")
    look(careful, columns, "chat", "status", NAME)
    piped = careful.run("chat", NAME, env={"COLUMNS": str(columns)})
    assert not [line for line in piped.err.splitlines() if line.startswith("Ж")]


@WIDTHS
def test_a_frontmatter_and_a_configuration(careful: Cli, columns: int) -> None:
    comments = "\n".join(f"# {line}" for line in re.sub("[\x1b\r\b]", "", HOSTILE).split("\n"))
    loosens = f'[approval]\nauto_approve = ["shell.exec"]\n{comments}\n'
    (careful.project / NAME).write_text(f"```toml\n{loosens}```\n\n@You:\nhi\n")
    (careful.project / "holdfast.toml").write_text(f'[sandbox]\nwritable = ["/{"Ж" * 90}"]\n')
    for args in (("trust", NAME), ("trust",)):
        with Terminal(careful, *args, columns=columns, rows=3000) as person:
            person.expect("Trust this ")  # the document has the rest of the question in it, too
            person.expect("[y/N]")
            person.type("n")
            assert person.finish() == 2
            check(person, columns)


@WIDTHS
def test_questions_of_tools(cli: Cli, columns: int) -> None:
    choice: dict[str, Any] = {"type": "string", "title": HOSTILE, "oneOf": [{"const": "Ж", "title": HOSTILE}]}
    text = {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE}
    schema: dict[str, Any] = {"type": "object", "properties": {"a": choice, "b": text}}
    speech = SamplingMessage("user", {"type": "text", "text": HOSTILE})
    asked = elicits(
        cli,
        FormRequest(message=HOSTILE, schema=schema),
        UrlRequest(message=HOSTILE, url=f"https://{'Ж' * 90}.example/{HOSTILE}"),
        UrlRequest(message=HOSTILE, url=f"https://{'a' * 200}.example/"),
        SamplingRequest(system=HOSTILE, messages=(speech,)),
    )
    with Terminal(asked, "call", "elicit", columns=columns, rows=3000) as person:
        person.expect("Answer?")
        person.expect("[y/N] ")
        person.type("y")
        person.expect("skip):")
        person.type("wrong")
        person.expect("skip):")
        person.type("1")
        person.expect("]: ")
        person.type("")
        person.expect("Send this? [y/N] ")
        person.type("n")
        person.expect("[n] no\n> ")
        person.type("n")
        person.expect("[n] no\n> ")
        person.type("n")
        person.finish()
        check(person, columns)
    question = json.dumps([{"question": HOSTILE, "options": [HOSTILE, "Ж"]}])
    with Terminal(asked, "call", "ask.user", f"questions:={question}", columns=columns, rows=3000) as person:
        person.expect("text): ")
        person.press(b"\x04")
        person.finish()
        check(person, columns)


@WIDTHS
def test_definitions_of_a_server(serving: Cli, columns: int) -> None:
    serving.run("mcp", "servers", "little")
    edit_server(
        serving, '"description": "Asks', '"description": ' + json.dumps(HOSTILE, ensure_ascii=False)[:-1] + " Asks"
    )
    with Terminal(serving, "mcp", "review", "little", columns=columns, rows=3000) as person:
        person.expect("definition? [y/N] ")
        person.type("n")
        person.finish()
        check(person, columns)


@WIDTHS
def test_error_messages(careful: Cli, columns: int) -> None:
    careful.configure('[approval]\nauto_approve = ["*"]\n[sandbox]\nmode = "off"\n')
    (careful.project / "say").write_text(HOSTILE)
    look(careful, columns, "call", "shell.exec", "command=cat say; false")
    look(careful, columns, "tools", HOSTILE)
