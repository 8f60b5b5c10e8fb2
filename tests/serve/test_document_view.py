"""Documents are shown whole, as very plain text, with cards in place of pending calls."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from holdfast.chat.document import Document
from holdfast.serve.document_view import document_html, text_html
from holdfast.serve.text_view import visible_line
from tests.serve.hostile_text import HOSTILE
from tests.serve.html_tree import Node, parse
from tests.soak import rounds

pytestmark = pytest.mark.spec("O1d")

PIECES = (
    "@You:\n", "@Assistant:\n", "@System:\n", "@Bob:\n", "\n", "```\n", "~~~py\n", "```yaml\na: 1\n```\n",
    "**Tool Use:** `bash` (`t1`)\n\n```json\n{\"command\": \"<b>\"}\n```\n", "**Tool Result:** `t1`\n\n```\nout\n```\n",
    "**Tool Result:** `t1`\n\n```flemma:tool status=pending\n```\n", "<thinking>\nhm\n</thinking>\n",
    "https://a.example/x.\n", "**Tool Result:** `t1` (error)\n\n```\nbad\n```\n", "![a](x_files/a.png)\n",
)  # fmt: skip
DOCUMENT = """@System:
Be brief.

@You:
Fix https://a.example/x.

```python
if a < b:
	pass
```

@Assistant:
<thinking>
Let me look.
</thinking>

I run it.

**Tool Use:** `bash` (`t1`)

```json
{"command": "ls", "timeout": 3}
```

@You:
**Tool Result:** `t1`

```flemma:tool status=pending
```
"""


def no_card(call_id: str) -> Markup | None:
    return None


def shown(text: str) -> Node:
    return parse(document_html(Document.parse(text), no_card))


@given(st.lists(st.sampled_from(PIECES) | HOSTILE, max_size=8).map("".join))
@settings(max_examples=rounds(80, 2000))
def test_any_document_is_well_formed(text: str) -> None:
    shown(text)


@given(HOSTILE)
def test_every_line_of_text_is_shown_once(text: str) -> None:
    given_text = text.replace("`", "").replace("~", "")
    paragraphs = parse(text_html(given_text)).all("p")
    lines = [line for node in paragraphs for line in node.text().split("\n")]
    assert lines == [visible_line(line) for line in given_text.split("\n") if line.strip()]


@given(st.lists(HOSTILE.map(lambda text: re.sub("[`~]", "", text)), min_size=3, max_size=3))
def test_code_and_text_around_it_are_shown(parts: list[str]) -> None:
    before, code, after = parts
    root = parse(text_html(f"{before}\n```\n{code}\n```\n{after}"))
    (block,) = root.all("pre", "code")
    assert [row.text() for row in block.all("span", "ln")] == [
        f"{visible_line(line)}\n"
        for number, line in enumerate(code.split("\n"), 1)
        if str(number) in {row.attributes["data-line"] for row in block.all("span", "ln")}
    ]
    texts = [line for node in root.all("p") for line in node.text().split("\n")]
    assert texts == [visible_line(line) for part in (before, after) for line in part.split("\n") if line.strip()]


def test_messages_have_their_roles() -> None:
    messages = shown(DOCUMENT).all("article", "message")
    assert [message.attributes["data-role"] for message in messages] == ["system", "you", "assistant", "you"]
    assert [message.all("h3")[0].text() for message in messages] == ["System", "You", "Assistant", "You"]


def test_an_unknown_role_is_only_text() -> None:
    (message,) = shown("@Bob:\nhi\n").all("article")
    assert (message.attributes["data-role"], message.all("h3")[0].text()) == ("other", "Bob")


def test_a_code_fence_keeps_its_language_and_its_text() -> None:
    root = shown(DOCUMENT)
    assert root.all("div", "fence")[0].all("span", "tag")[0].text() == "python"
    assert root.all("pre", "code")[0].text() == "if a < b:\n\tpass\n"


def test_a_web_address_becomes_a_link_and_the_full_stop_does_not() -> None:
    (link,) = shown(DOCUMENT).all("a")
    assert link.attributes == {"href": "https://a.example/x", "rel": "noreferrer noopener"}


def test_an_address_with_an_unclear_host_stays_text() -> None:
    root = parse(text_html("https://user@a.example/ https://xn--80ak6aa92e.com/ javascript:x"))
    assert not root.all("a")


def test_a_tool_call_shows_its_arguments() -> None:
    (use,) = shown(DOCUMENT).all("section", "tool-use")
    assert use.all("h4")[0].text() == "Calls bash t1"
    assert [row.text() for row in use.all("tr")] == ["commandls", "timeout3 number"]


def test_a_pending_call_is_replaced_by_its_card() -> None:
    asked: list[str] = []

    def card(call_id: str) -> Markup:
        asked.append(call_id)
        return Markup('<div class="card">CARD</div>')

    root = parse(document_html(Document.parse(DOCUMENT), card))
    assert asked == ["t1"]
    assert len(root.all("div", "card")) == 1
    assert not root.all("section", "tool-result")


def test_a_placeholder_without_a_card_says_its_status() -> None:
    (result,) = shown(DOCUMENT).all("section", "tool-result")
    assert result.all("h4")[0].text() == "Call t1 is pending"


def test_an_id_that_an_earlier_turn_used_has_one_card() -> None:
    text = f"{DOCUMENT}\n{DOCUMENT.partition('@Assistant:')[1]}{DOCUMENT.partition('@Assistant:')[2]}"
    root = parse(document_html(Document.parse(text), lambda call_id: Markup('<div class="card">CARD</div>')))
    assert len(root.all("div", "card")) == 1
    assert root.all("article")[-1].all("div", "card")


def test_results_errors_and_front_matter_are_shown() -> None:
    root = shown(
        "```lua\nflemma.opt.x = 1\n```\n@Assistant:\n**Tool Use:** `bash` (`t1`)\n\n```json\nnot json\n```\n\n@You:\n"
        "**Tool Result:** `t1` (error)\n\n```\nfailed <b>\n```\n"
    )
    assert root.all("h4")[0].text() == "Front matter, lua"
    assert root.all("section", "tool-result")[0].classes == {"tool-result", "error"}
    assert root.all("pre", "output")[0].text() == "failed <b>\n"
    assert "not json\n" in root.all("section", "tool-use")[0].text()
