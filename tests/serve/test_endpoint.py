"""An endpoint: its query and body are checked before its handler sees them."""

from __future__ import annotations

import pytest
from msgspec import Struct
from starlette.requests import Request

from holdfast.serve.api import CallsQuery
from holdfast.serve.endpoint import Endpoint, read_query
from holdfast.serve.requests import BadRequest


class Empty(Struct):
    pass


def request(query: str) -> Request:
    return Request({"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query.encode()})


@pytest.mark.spec("E3a")
def test_a_query_is_read_by_its_types() -> None:
    found = read_query(request("limit=5&since=1.5&text=a+b&state=done"), CallsQuery)
    assert (found.limit, found.since, found.text, found.state) == (5, 1.5, "a b", "done")


@pytest.mark.spec("E3a")
@pytest.mark.parametrize("query", ["limit=x", "limit=0", "limit=501", "other=1", "text=a&text=b", "state=no"])
def test_a_query_that_does_not_fit_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        read_query(request(query), CallsQuery)


async def _handler(owner: object, request: object) -> Empty:
    return Empty()


@pytest.mark.spec("E3b")
def test_whatever_is_posted_needs_the_right_to_answer() -> None:
    get = Endpoint(method="GET", path="/api/x/{a}/{b_c}", summary="", handler=_handler, reply=Empty)
    post = Endpoint(method="POST", path="/api/x", summary="", handler=_handler, reply=Empty)
    assert (get.right, post.right, get.parameters) == ("view", "answer", ["a", "b_c"])
