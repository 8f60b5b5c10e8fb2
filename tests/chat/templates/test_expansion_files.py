from __future__ import annotations

import os

import pytest

from holdfast.chat.templates import expansion as bounds
from holdfast.chat.templates.scanner import Reference, references_in
from holdfast.contract.message import Text
from holdfast.contract.result import Attachment
from tests.chat.templates.template_project import PNG, TemplateProject, expanded_text, only_diagnostic


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
def test_a_reference_excludes_trailing_punctuation(text: str, path: str, mime: str | None, source: str) -> None:
    [found] = [part for part in references_in(text) if isinstance(part, Reference)]
    assert found == Reference(source, path, mime)
    assert "".join(part if isinstance(part, str) else part.source for part in references_in(text)) == text


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", ["me@./x", "@You:", "@x/y", "@ ./x", "a@b.c", "@@./x", "@./", "@../..", "@/x"])
def test_text_that_only_looks_like_a_reference_stays_text(text: str) -> None:
    assert references_in(text) == [text]


@pytest.mark.spec("D8")
def test_files_become_text_or_attachments(project: TemplateProject) -> None:
    project.put(a__txt="hello {{ 1 }} @./a.txt", b__png=PNG, c__pdf=b"%PDF-1.7", d__bin=b"\0\1", e__wav=b"\0\0x")
    done = project.expand("1 @./a.txt, 2 @./b.png. 3 @./c.pdf 4 @./e.wav;type=audio/wav")
    assert expanded_text(done) == "1 hello {{ 1 }} @./a.txt, 2 <image/png>. 3 <application/pdf> 4 <audio/wav>"
    picture = done.parts[1]
    path = str(project.docs / "b.png")
    assert picture == Attachment(kind="image", mime_type="image/png", data=PNG, name="b.png", path=path)
    odd = project.expand("@./d.bin")
    assert (
        "Unsupported MIME type: application/octet-stream" in only_diagnostic(odd).message
        and expanded_text(odd) == "@./d.bin"
    )


@pytest.mark.spec("D8")
def test_only_references_that_the_template_reaches_are_read(project: TemplateProject) -> None:
    project.put(a__txt="A")
    text = "{% for i = 1, 2 do %}@./a.txt{% end %}{% if false then %}@./nowhere{% end %}"
    assert project.text(text) == "AA"


@pytest.mark.spec("D8")
def test_a_missing_file_is_a_warning_with_its_line_and_the_reference_stays_text(project: TemplateProject) -> None:
    done = project.expand("a\n\nsee @./nope.md", line=10)
    assert (only_diagnostic(done).severity, only_diagnostic(done).line, expanded_text(done)) == (
        "warning",
        12,
        "a\n\nsee @./nope.md",
    )


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", ["@../../secret", "@//etc/passwd", "@~/secret", "@./link", "@./%2e%2e/../secret"])
def test_files_outside_the_project_are_read_only_if_the_configuration_allows_it(
    project: TemplateProject, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    home = project.root.parent
    monkeypatch.setenv("HOME", str(home))
    (home / "secret").write_text("hunter2")
    (project.docs / "link").symlink_to(home / "secret")
    for inside in (text, f'{{{{ include("{text[1:]}", {{ [symbols.BINARY] = true }}) }}}}'):
        done = project.expand(inside)
        assert expanded_text(done) == inside and "hunter2" not in str(done)
        missing = "There is no file" in only_diagnostic(done).message  # in an expression nothing is decoded
        assert '`chat.files = "anywhere"`' in only_diagnostic(done).message or (missing and "%2e" in inside)


@pytest.mark.spec("D8")
def test_denied_files_are_never_read_even_with_files_anywhere(
    project: TemplateProject, monkeypatch: pytest.MonkeyPatch
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
        assert expanded_text(done) == text and only_diagnostic(done).severity == "warning"
    denied = project.expand("@./own", files="anywhere", read_deny=(str(project.docs / "own"),))
    assert "sandbox.read_deny" in only_diagnostic(denied).message


@pytest.mark.spec("D8")
def test_a_special_file_is_refused_without_blocking(project: TemplateProject) -> None:
    os.mkfifo(project.docs / "pipe")
    (project.docs / "folder").mkdir()
    done = project.expand("@./pipe @./folder")
    assert [item.message.partition(": ")[2] for item in done.diagnostics] == [
        "'./pipe' is a named pipe, not a regular file.",
        "'./folder' is a folder, not a regular file.",
    ]


@pytest.mark.spec("D8")
def test_file_size_is_limited(project: TemplateProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TEXT", 10)
    monkeypatch.setattr(bounds, "MAX_ATTACHMENT", 20)
    project.put(long__txt="x" * 11, fits__txt="x" * 10, big__png=PNG + b"x" * 20)
    done = project.expand("@./long.txt @./fits.txt @./big.png")
    assert expanded_text(done) == f"@./long.txt {'x' * 10} @./big.png"
    assert ["longer than 10 bytes" in done.diagnostics[0].message, "larger than 20" in done.diagnostics[1].message] == [
        True, True,
    ]  # fmt: skip


@pytest.mark.spec("D8")
def test_includes_are_expanded_as_templates(project: TemplateProject) -> None:
    project.put(a__md="Dear {{ who }}, @./b.md {{ include('b.md') }}", b__md="B {{ __filename:match('[^/]+$') }}")
    code = 'who = "outer"'
    assert project.text("{{ include('a.md', { who = 'you' }) }}!", code) == "Dear you, @./b.md B b.md!"
    done = project.expand("{{ include('./a.md') }}", code)
    assert "'who' is not defined" in only_diagnostic(done).message and "a.md, line 1" in only_diagnostic(done).message
    project.put(c__png=PNG)
    assert expanded_text(project.expand("x{{ include('c.png', { [symbols.BINARY] = true }) }}y")) == "x<image/png>y"
    assert only_diagnostic(project.expand("{{ include('c.png') }}")).message.endswith("Include it with symbols.BINARY.")


@pytest.mark.spec("D8")
def test_a_circular_include_is_an_error_that_shows_the_cycle(project: TemplateProject) -> None:
    project.put(a__md="{{ include('b.md') }}", b__md="\n{{ include('a.md') }}")
    found = only_diagnostic(project.expand("{{ include('a.md') }}"))
    circle = found.message.partition("Circular include: ")[2].partition(". In ")[0]
    assert found.severity == "error"
    assert circle == "docs/t.chat -> docs/a.md -> docs/b.md -> docs/a.md"
    assert found.message.endswith("In docs/b.md, line 2.")


@pytest.mark.spec("D8")
def test_the_number_of_includes_is_limited(project: TemplateProject) -> None:
    project.put(a__md="x")
    found = only_diagnostic(project.expand("{% for i = 1, 1000 do include('a.md') end %}"))
    assert found.severity == "error" and "includes too many files" in found.message


@pytest.mark.spec("D8")
def test_an_include_path_that_is_not_a_string_is_an_error(project: TemplateProject) -> None:
    assert "include needs the path of a file" in only_diagnostic(project.expand("{{ include({}) }}")).message


@pytest.mark.spec("D8")
def test_invalid_utf8_does_not_break_an_expansion(project: TemplateProject) -> None:
    project.put(a__txt=b"caf\xe9")
    assert project.expand("@./a.txt").parts == (Text("caf\ufffd", included=True),)
