from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.chat.lua.host import LuaHost, LuaLimits
from holdfast.chat.templates.scanner import TemplateScan
from holdfast.contract.message import Text
from tests.chat.templates.template_project import TemplateProject, expanded_text, only_diagnostic
from tests.quick import quickly
from tests.soak import rounds

VARIABLES = 'who = "QA" items = { "a", "b" } function up(text) return text:upper() end'


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("no template", "no template"),
        ("Hi {{ who }}!", "Hi QA!"),
        ("{{ up(who) }}{{ 1 + 1 }}{{ true }}{{ nil }}{{ items[9] }}", "QA2true"),
        ("{{ items }} {{ { ['ä'] = 'ö', n = 1.5 } }}", '["a","b"] {"n":1.5,"ä":"ö"}'),
        ('{{ "}}" }}{{ [[ }} ]] }}{{ ({ a = { 1 } }).a[1] }}{{ 5 -- five }}', "}} }} 15"),
        ("{% --[[ %} ]] x = 1 -- y %}{{ x }}", "1"),
        ("{%- if who then -%}Audience: {{ who }}{%- end -%}\n", "Audience: QA"),
        ("{% for x, loop in each(items) do %}{{ loop.index }}{{ x }}{% if not loop.last then %},{% end %}{% end %}",
         "1a,2b"),
        ("{% for x in values(items) do %}{{ x }}{% end %}", "ab"),
        ("{% print('p', 1) %}", "p1"),
        ("a \n  {{- who -}}  \n\n b", "a QA\n b"),
        ("a {{- who -}} b", "aQAb"),
        ("{% local n = 3 %}{{ n }}", "3"),
        ("{{ unclosed", "{{ unclosed"),
        ("{% unclosed }}", "{% unclosed }}"),
        ("{{ 'never closed }} {{ who }}", "{{ 'never closed }} QA"),
        ("} } %} }}", "} } %} }}"),
        ("{{ __filename:match('[^/]+$') }} {{ __dirname:match('[^/]+$') }}", "t.chat docs"),
        ("é \udcff {{ 'é' }} {{ '\udcff' }}", "é \udcff é \udcff"),
    ],
)  # fmt: skip
def test_templates_are_expanded(project: TemplateProject, text: str, becomes: str) -> None:
    assert project.text(text, VARIABLES) == becomes


@pytest.mark.spec("D8", "D6")
@pytest.mark.parametrize(
    ("language", "code"),
    [("json", '{"who": "QA", "deep": {"n": [1, 2]}}'), ("toml", "vars = {who = 'QA', deep.n = [1, 2]}")],
)
def test_variables_of_every_language_are_available(project: TemplateProject, language: str, code: str) -> None:
    assert project.text("{{ who }} {{ deep.n[2] }}", code, language=language) == "QA 2"


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("\n{{ nobody }} {{ 1 }}", "the variable 'nobody' is not defined", 8),
        ("{{ 1 + }} {{ 1 }}", "unexpected symbol near <eof>", 7),
        ("{{ 1, \n\n error('boo') }} {{ 1 }}", "boo", None),
        ("{{ string }} {{ 1 }}", "a function cannot be encoded", 7),
        ("{{ string.rep }} {{ 1 }}", "a function cannot be converted to text", 7),
        ("{{ error({}) }} {{ 1 }}", "an error value of type table", 7),
    ],
)
def test_a_failing_expression_stays_text_with_a_warning(
    project: TemplateProject, text: str, message: str, line: int | None
) -> None:
    done = project.expand(text, line=7)
    found = only_diagnostic(done)
    assert found.severity == "warning" and message in found.message
    assert line is None or found.line == line
    assert expanded_text(done) == text.replace("{{ 1 }}", "1")


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("\n\n{% error('boo') %}", "The template failed: boo.", 3),
        ("a\n{% x = %}", "unexpected symbol", 2),
        ("{% for i = 1, 2 do %}", "'end' expected", None),
        ("a\n{{ include('nowhere') }}", "There is no file 'nowhere'.", 2),
        ("a\n{% local x = include('nowhere') %}", "There is no file 'nowhere'.", 2),
        ("{% flemma.opt.thinking = 'low' %}", "options can be set only in the frontmatter itself.", 1),
        ("{{ ('x'):rep(5e6) }}", "the text exceeds 4 MB.", 1),
        ("{% while true do print('xxxxxxxxxxxxxxxxxxxxxx') end %}", "the text exceeds 4 MB.", 1),
        ("{% local t = {} while true do t[#t + 1] = ('x'):rep(99) end %}", "exceeds its memory limit", None),
    ],
)
def test_failing_code_is_an_error_and_the_text_is_unchanged(
    project: TemplateProject, text: str, message: str, line: int | None
) -> None:
    done = project.expand(text, "x = 1")
    found = only_diagnostic(done)
    assert found.severity == "error" and message in found.message
    assert line is None or found.line == line
    assert done.parts == (Text(text),)


@pytest.mark.spec("D8")
def test_an_endless_template_is_killed(project: TemplateProject) -> None:
    with LuaHost(LuaLimits(expand=0.3)) as host:
        project.lua = host
        assert "timed out after 0.3 seconds" in only_diagnostic(project.expand("{% while true do end %}")).message
        assert project.text("{{ 1 }}") == "1"


@pytest.mark.spec("D8")
def test_no_state_leaks_from_one_template_to_the_next(project: TemplateProject) -> None:
    assert project.text("{% items[1] = 'changed' left = 1 %}{{ items[1] }}", VARIABLES) == "changed"
    assert project.text("{{ items[1] }}", VARIABLES) == "a"
    assert "'left' is not defined" in only_diagnostic(project.expand("{{ left }}", VARIABLES)).message


@pytest.mark.spec("D8")
def test_text_without_templates_starts_no_worker(project: TemplateProject) -> None:
    with LuaHost() as host:
        project.lua = host
        assert project.text("plain { text }") == "plain { text }"
        assert host.pid is None


@pytest.mark.spec("D8")
@settings(max_examples=rounds(40, 200), deadline=None)
@given(st.text(alphabet="{}%-'\"[]=\\ \nax", max_size=40))
def test_every_character_is_in_a_piece_or_trimmed_white_space(text: str) -> None:
    pieces = TemplateScan(text).pieces
    at = 0
    for piece in pieces:
        found = text.find(piece.source, at)
        assert found >= at and text[at:found].strip() == ""
        at = found + len(piece.source)
        assert piece.line <= text.count("\n") + 1
    assert text[at:].strip() == ""


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", ["{{" * 300_000 + "}}", "{{ '" * 200_000, "{{ [[" * 200_000, "{% --" * 200_000])
def test_unclosed_marks_take_bounded_time(project: TemplateProject, text: str) -> None:
    with quickly():
        done = project.expand(text)
    assert expanded_text(done) == text
    assert all("never closed" in item.message for item in done.diagnostics)
