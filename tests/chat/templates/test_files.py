from __future__ import annotations

import os

import pytest

from holdfast.chat.templates import expansion as bounds
from holdfast.chat.templates.scanner import Reference, references_in
from holdfast.contract.message import Text
from holdfast.contract.result import Attachment
from tests.chat.templates.support import PNG, Project, only, shown


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("text", "path", "mime", "source"),
    [
        ("see @./a.md.", "./a.md", None, "@./a.md"),
        ("(@../x/a.md), so", "../x/a.md", None, "@../x/a.md"),
        ("@~/n.txt!", "~/n.txt", None, "@~/n.txt"),
        ("@//var/log/app.log", "/var/log/app.log", None, "@//var/log/app.log"),
        ("@./src/m.py;type=text/x-python, and", "./src/m.py", "text/x-python", "@./src/m.py;type=text/x-python"),
        ("@./a+b%20c.png", "./a b c.png", None, "@./a+b%20c.png"),
        ("@./a%2eb", "./a.b", None, "@./a%2eb"),
    ],
)
def test_a_reference_is_read_without_the_punctuation_of_its_sentence(
    text: str, path: str, mime: str | None, source: str
) -> None:
    [found] = [part for part in references_in(text) if isinstance(part, Reference)]
    assert found == Reference(source, path, mime)
    assert "".join(part if isinstance(part, str) else part.source for part in references_in(text)) == text


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", ["me@./x", "@You:", "@x/y", "@ ./x", "a@b.c", "@@./x", "@./", "@../..", "@/x"])
def test_what_only_looks_like_a_reference_is_text(text: str) -> None:
    assert references_in(text) == [text]


@pytest.mark.spec("D8")
def test_files_become_text_or_attachments(project: Project) -> None:
    project.put(a__txt="hello {{ 1 }} @./a.txt", b__png=PNG, c__pdf=b"%PDF-1.7", d__bin=b"\0\1", e__wav=b"\0\0x")
    done = project.expand("1 @./a.txt, 2 @./b.png. 3 @./c.pdf 4 @./e.wav;type=audio/wav")
    assert shown(done) == "1 hello {{ 1 }} @./a.txt, 2 <image/png>. 3 <application/pdf> 4 <audio/wav>"
    picture = done.parts[1]
    assert picture == Attachment(kind="image", mime_type="image/png", data=PNG, name="b.png")
    odd = project.expand("@./d.bin")
    assert "Unsupported MIME type: application/octet-stream" in only(odd).message and shown(odd) == "@./d.bin"


@pytest.mark.spec("D8")
def test_only_references_that_the_template_reaches_are_read(project: Project) -> None:
    project.put(a__txt="A")
    text = "{% for i = 1, 2 do %}@./a.txt{% end %}{% if false then %}@./nowhere{% end %}"
    assert project.text(text) == "AA"


@pytest.mark.spec("D8")
def test_a_missing_file_is_a_warning_with_its_line_and_the_text_stays(project: Project) -> None:
    done = project.expand("a\n\nsee @./nope.md", line=10)
    assert (only(done).severity, only(done).line, shown(done)) == ("warning", 12, "a\n\nsee @./nope.md")


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", ["@../../secret", "@//etc/passwd", "@~/secret", "@./link", "@./%2e%2e/../secret"])
def test_nothing_outside_the_project_is_read_unless_the_configuration_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    home = project.root.parent
    monkeypatch.setenv("HOME", str(home))
    (home / "secret").write_text("hunter2")
    (project.docs / "link").symlink_to(home / "secret")
    for inside in (text, f'{{{{ include("{text[1:]}", {{ [symbols.BINARY] = true }}) }}}}'):
        done = project.expand(inside)
        assert shown(done) == inside and "hunter2" not in str(done)
        missing = "There is no file" in only(done).message  # in an expression nothing is decoded
        assert '`chat.files = "anywhere"`' in only(done).message or (missing and "%2e" in inside)


@pytest.mark.spec("D8")
def test_files_may_be_anywhere_but_never_what_may_not_be_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project.root.parent
    monkeypatch.setenv("HOME", str(home))
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("hunter2")
    (home / "notes").write_text("N")
    (project.docs / "link").symlink_to(home / ".ssh" / "id")
    (project.docs / "own").write_text("hunter2")
    assert project.text("@~/notes @../../notes", files="anywhere") == "N N"
    for text in ("@~/.ssh/id", "@./link", "@//proc/self/status", "@//dev/zero"):
        done = project.expand(text, files="anywhere")
        assert shown(done) == text and only(done).severity == "warning"
    denied = project.expand("@./own", files="anywhere", read_deny=(str(project.docs / "own"),))
    assert "sandbox.read_deny" in only(denied).message


@pytest.mark.spec("D8")
def test_what_is_no_regular_file_is_refused_without_waiting(project: Project) -> None:
    os.mkfifo(project.docs / "pipe")
    (project.docs / "folder").mkdir()
    done = project.expand("@./pipe @./folder")
    assert [item.message.partition(": ")[2] for item in done.diagnostics] == [
        "'./pipe' is a named pipe, not a regular file.",
        "'./folder' is a folder, not a regular file.",
    ]


@pytest.mark.spec("D8")
def test_files_are_bounded_in_size(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TEXT", 10)
    monkeypatch.setattr(bounds, "MAX_ATTACHMENT", 20)
    project.put(long__txt="x" * 11, fits__txt="x" * 10, big__png=PNG + b"x" * 20)
    done = project.expand("@./long.txt @./fits.txt @./big.png")
    assert shown(done) == f"@./long.txt {'x' * 10} @./big.png"
    assert ["longer than 10 bytes" in done.diagnostics[0].message, "larger than 20" in done.diagnostics[1].message] == [
        True, True,
    ]  # fmt: skip


@pytest.mark.spec("D8")
def test_includes_are_templates_of_their_own(project: Project) -> None:
    project.put(a__md="Dear {{ who }}, @./b.md {{ include('b.md') }}", b__md="B {{ __filename:match('[^/]+$') }}")
    code = 'who = "outer"'
    assert project.text("{{ include('a.md', { who = 'you' }) }}!", code) == "Dear you, @./b.md B b.md!"
    done = project.expand("{{ include('./a.md') }}", code)
    assert "'who' is not defined" in only(done).message and "a.md, line 1" in only(done).message
    project.put(c__png=PNG)
    assert shown(project.expand("x{{ include('c.png', { [symbols.BINARY] = true }) }}y")) == "x<image/png>y"
    assert only(project.expand("{{ include('c.png') }}")).message.endswith("Include it with symbols.BINARY.")


@pytest.mark.spec("D8")
def test_a_circle_of_includes_is_an_error_with_the_whole_circle(project: Project) -> None:
    project.put(a__md="{{ include('b.md') }}", b__md="\n{{ include('a.md') }}")
    found = only(project.expand("{{ include('a.md') }}"))
    circle = found.message.partition("Circular include: ")[2].partition(". In ")[0]
    assert found.severity == "error"
    assert circle == "docs/t.chat -> docs/a.md -> docs/b.md -> docs/a.md"
    assert found.message.endswith("In docs/b.md, line 2.")


@pytest.mark.spec("D8")
def test_includes_are_bounded_in_number(project: Project) -> None:
    project.put(a__md="x")
    found = only(project.expand("{% for i = 1, 1000 do include('a.md') end %}"))
    assert found.severity == "error" and "includes too many files" in found.message


@pytest.mark.spec("D8")
def test_a_path_that_is_no_text_is_an_error(project: Project) -> None:
    assert "include needs the path of a file" in only(project.expand("{{ include({}) }}")).message


@pytest.mark.spec("D8")
def test_bytes_that_are_no_text_do_not_break_a_text(project: Project) -> None:
    project.put(a__txt=b"caf\xe9")
    assert project.expand("@./a.txt").parts == (Text("caf\ufffd", included=True),)
