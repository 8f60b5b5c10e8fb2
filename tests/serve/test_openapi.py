"""The OpenAPI document describes what the API does: generated requests never crash it, and every reply conforms."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from holdfast.contract.json import encode_json, parse_json
from holdfast.serve.api import ENDPOINTS
from holdfast.serve.openapi import openapi_document, operation_id, statuses
from tests.serve.served import WRITE, Daemon, pending
from tests.soak import SOAK, rounds

_ANY: Any = checks
_OPENAPI: Any = openapi_checks
CHECKS: list[Any] = [
    _ANY.not_a_server_error,
    _OPENAPI.status_code_conformance,
    _OPENAPI.content_type_conformance,
    _OPENAPI.response_schema_conformance,
]
DOCUMENT = openapi_document(ENDPOINTS)


def operations() -> list[tuple[str, str]]:
    return [(endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.path != "/api/events"]


@pytest.mark.spec("E3a")
def test_every_endpoint_is_described_with_its_types_errors_and_command() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    for endpoint in ENDPOINTS:
        found = DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]
        assert found["operationId"] == operation_id(endpoint)
        assert set(found["responses"]) == {"200", *map(str, statuses(endpoint))}
        assert endpoint.command in found.get("description", "")
        assert ("requestBody" in found) is (endpoint.method == "POST")
    assert len({operation_id(endpoint) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


@pytest.mark.spec("E3a")
def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            inner = [found for item in value.values() for found in references(item)]  # pyright: ignore
            return [*inner, value["$ref"]] if isinstance(value.get("$ref"), str) else inner  # pyright: ignore
        return [found for item in value for found in references(item)] if isinstance(value, list) else []  # pyright: ignore

    schemas = DOCUMENT["components"]["schemas"]
    assert {found.rpartition("/")[2] for found in references(DOCUMENT)} <= set(schemas)
    for name, schema in schemas.items():
        assert jsonschema_rs.meta.is_valid(schema), name
    assert schemas["PendingOutput"]["properties"]["digest"]["description"]


@pytest.mark.spec("E3a")
def test_the_daemon_serves_the_document_only_to_people(served: Daemon) -> None:
    assert served.client().get("/api/openapi.json").status_code == 401
    assert served.client(served.add("ann")).get("/api/openapi.json").json() == parse_json(encode_json(DOCUMENT))


@pytest.mark.spec("E3a")
def test_generated_requests_get_replies_that_conform(served: Daemon) -> None:
    served.cli.make_pending(*WRITE)
    (item,) = pending(served.local())
    known = {"project": item["project"], "call_id": item["call"]["call_id"]}
    headers = {"Authorization": f"Bearer {served.add('ann')}"}
    schema: Any = schemathesis.openapi.from_dict(DOCUMENT)
    for method, path in operations():
        operation = schema[path][method]

        @settings(
            max_examples=rounds(6, 300),
            derandomize=not SOAK,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        )
        @given(case=operation.as_strategy(), real=st.booleans())
        def send(case: Any, real: bool) -> None:
            if real:
                case.path_parameters = {**(case.path_parameters or {}), **_used(known, case)}
            body: Any = case.body
            if type(body) is dict and "wait" in body:
                body["wait"] = 0.1
            reply = case.call(base_url=served.url, headers=headers, timeout=60)
            case.validate_response(reply, checks=CHECKS)

        send()
    assert served.process.poll() is None


def _used(known: dict[str, str], case: Any) -> dict[str, str]:
    return {name: value for name, value in known.items() if f"{{{name}}}" in case.operation.path}
