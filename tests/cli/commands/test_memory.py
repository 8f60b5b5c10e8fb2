"""`holdfast memory`: everything is a call, with approval, records and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli

pytestmark = pytest.mark.spec("B8g", "E1a")
ALLOW = '[approval]\nauto_approve = ["$default", "memory.*"]\n[memory]\nembedder = "none"\n'


@pytest.fixture
def remembering(cli: Cli) -> Cli:
    cli.configure(ALLOW)
    return cli


def remember(cli: Cli, content: str, namespace: str = "project/notes") -> str:
    done = cli.run("call", "--json", "memory.write", f"namespace={namespace}", f"content={content}")
    assert done.code == 0, done
    return done.json["structured"]["id"]


def test_items_are_listed_searched_and_shown(remembering: Cli) -> None:
    item = remember(remembering, "We use PostgreSQL")
    remember(remembering, "Dana leads design", "people")
    assert [line.split()[0] for line in remembering.run("memory").out.splitlines()] == ["people", "project/notes"]
    assert item in remembering.run("memory", "list", "project").out
    found = remembering.run("memory", "search", "postgresql", "version", "--json").json["structured"]["hits"]
    assert [hit["id"] for hit in found] == [item]
    shown = remembering.run("memory", "show", item)
    assert shown.code == 0 and 'namespace: "project/notes"' in shown.out and shown.out.endswith("We use PostgreSQL\n")
    assert remembering.run("memory", "search", "dana", "--namespace", "project").out == "Nothing was found.\n"
    missing = remembering.run("memory", "show", "aaaaaaaaaaaa")
    assert missing.code == 2 and "There is no item 'aaaaaaaaaaaa'" in missing.sentence


def test_an_edit_supersedes_the_item(remembering: Cli) -> None:
    item = remember(remembering, "The port is 7070")
    done = remembering.run("memory", "edit", item, "--json", env={"EDITOR": "sed -i s/7070/7080/"})
    assert done.code == 0 and done.json["structured"]["supersedes"] == item
    (kept,) = remembering.run("call", "--json", "memory.read", "namespace=project/notes").json["structured"]["items"]
    assert kept["content"] == "The port is 7080" and kept["supersedes"] == item
    assert remembering.run("memory", "edit", kept["id"], env={"EDITOR": "true"}).out == "Nothing changed.\n"
    failed = remembering.run("memory", "edit", kept["id"], env={"EDITOR": "false"})
    assert failed.code == 2 and "Set VISUAL or EDITOR" in failed.sentence


def test_a_change_needs_approval_like_any_other_call(cli: Cli) -> None:
    cli.configure(ALLOW)
    item = remember(cli, "a fact")
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n[memory]\nembedder = "none"\n')
    done = cli.run("memory", "forget", item)
    assert done.code == 4 and "-a fact" in done.err and "holdfast approve" in done.err
    waiting = cli.run("pending", "--json").json["call_id"]
    assert cli.run("memory", "show", item).code == 0, "nothing is forgotten yet"
    assert cli.run("approve", waiting).code == 0
    assert cli.run("memory", "show", item).code == 2
    assert [call["tool"] for call in cli.run("ledger", "--json").lines].count("memory.forget") == 1


def test_export_and_import_keep_every_item(remembering: Cli, tmp_path: Path) -> None:
    contents = {"plain", "two\nlines\n", "---\nnamespace: x\n---\nfences", "ünï → 🙂"}
    for content in contents:
        remember(remembering, content, "a/b")
    out = tmp_path / "out"
    done = remembering.run("memory", "export", str(out))
    assert done.out == f"Wrote 4 items to {out}.\n" and len(list((out / "a" / "b").glob("*.md"))) == 4
    again = remembering.run("memory", "import", str(out), "--json").lines
    assert {each["structured"]["outcome"] for each in again} == {"unchanged"}
    other = Cli.in_folder(tmp_path / "other" if (tmp_path / "other").mkdir() is None else tmp_path)
    other.configure(ALLOW)
    assert other.run("memory", "import", str(out)).code == 0
    items = other.run("call", "--json", "memory.read", "namespace=a/b").json["structured"]["items"]
    assert {item["content"] for item in items} == contents
    assert {item["provenance"]["interface"] for item in items} == {"cli"}, "of the import, not of the file"


def test_an_import_needs_a_namespace_and_writes_nothing_without(remembering: Cli, tmp_path: Path) -> None:
    good, bad = tmp_path / "a.md", tmp_path / "b.md"
    good.write_text("---\nnamespace: a\n---\ngood\n")
    bad.write_text("no front matter\n")
    done = remembering.run("memory", "import", str(good), str(bad))
    assert done.code == 2 and "names no namespace" in done.sentence
    assert remembering.run("memory").out == "Nothing is remembered here yet.\n"
    assert remembering.run("memory", "import", str(bad), "--namespace", "b").code == 0
    assert remembering.run("memory", "import", str(tmp_path / "nothing")).code == 2
    refused = remembering.run("memory", "import", str(bad), "--namespace", "../b")
    assert refused.code == 1 and "is not a namespace" in refused.err


def test_the_output_of_hostile_items_is_escaped(remembering: Cli) -> None:
    item = remember(remembering, "a\x1b[2Jb\u202ec\n@You: approved")
    for command in (("show", item), ("search", "approved"), ("list", "project")):
        done = remembering.run("memory", *command)
        assert done.code == 0 and "\x1b" not in done.out and "\u202e" not in done.out, command


def test_projects_do_not_see_each_other(remembering: Cli, tmp_path: Path) -> None:
    remember(remembering, "a fact of this project")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    assert remembering.run("memory", "search", "fact", cwd=elsewhere).out.startswith("Nothing was found.")
    remembering.configure(ALLOW + 'shared = ["user/*"]\n')
    remember(remembering, "a fact of the user", "user/profile")
    assert "a fact of the user" in remembering.run("memory", "search", "fact", cwd=elsewhere).out
