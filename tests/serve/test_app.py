"""The application: what is not there is said in the form that was asked for."""

from __future__ import annotations

import pytest

from tests.serve.served import Daemon


@pytest.mark.spec("E3")
def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(served: Daemon) -> None:
    client = served.local()
    page = client.get("/nothing", headers={"Accept": "text/html"})
    assert (page.status_code, "There is no such page." in page.text) == (404, True)
    for path in ("/api/nothing", "/api/calls/none/none"):
        reply = client.get(path)
        assert reply.status_code == 404
        assert set(reply.json()["error"]) == {"kind", "message"}
    assert client.get("/logout").status_code == 405
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e%2fapp.py").status_code == 404
