"""What lists of objects share: the preview, notes on one line, and bounded lines below the table."""

from __future__ import annotations

import pytest
from hypothesis import given

from holdfast.text.escape import text_width
from holdfast.text.preview import preview
from holdfast.tools.k8s.list_view import one_line
from holdfast.tools.k8s.pods import K8S_PODS, PODS
from tests.text.strategies import ANY_TEXT
from tests.tools.k8s.api_server import Object

pytestmark = pytest.mark.spec("B10c")


def test_the_preview_names_the_selection_and_the_reason() -> None:
    args = {"all_namespaces": True, "selector": "app=web", "limit": 5, "label": "why"}
    assert preview("k8s.pods", args, 80, K8S_PODS.format_preview) == "k8s.pods: all namespaces selector=app=web  # why"
    blank = {"namespace": "team", "label": " "}
    assert preview("k8s.pods", blank, 80, K8S_PODS.format_preview) == "k8s.pods: namespace=team"


@given(ANY_TEXT)
def test_a_note_is_one_clipped_line(text: str) -> None:
    note = one_line(text)
    assert note is None or (note.strip() and text_width(note) <= 300 and "\n" not in note)


def test_lines_below_the_table_are_bounded_in_number_and_length() -> None:
    item: Object = {
        "namespace": "n",
        "name": "web",
        "status": "Failed",
        "ready": 0,
        "containers": 1,
        "restarts": 0,
        "last_restart": None,
        "last_failure": None,
        "message": "\u200b\u200c" * 700,
        "age": "1d",
        "node": None,
    }
    output: Object = {"context": "c", "server": "s", "namespace": None, "more": False, "remaining": 0}
    output["pods"] = [item] * 60
    lines = PODS.render(output).split("\n")
    assert lines[-1] == "(10 more in the structured output)"
    assert all(line.startswith("n/web: ") and text_width(line) <= 800 for line in lines[-51:-1])
