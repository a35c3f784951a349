"""The OpenAPI document against the gateway: every route answers as it says, and nothing made from it breaks a route."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

import app.core.api
from app.client.http import GatewayClient
from app.config.table import SETTINGS
from app.core.api import PREFIX, SettingInfo
from app.core.chats import Chat, NewChat, NewTurn, Turn
from app.core.errors import BadRequest, Conflict
from app.gateway.admin.calls import AdminEndpoint
from app.gateway.admin.routes import ENDPOINTS, PUBLISHED_NAMES
from tests.depth import trials
from tests.gateway.admin.checked_calls import DOCUMENT, CheckedCalls
from tests.gateway.admin.real_gateway import RealGateway
from tests.patience import PATIENCE_S

CHECKS = [
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
    content_type_conformance,
    unsupported_method,
]
EXAMPLES = trials(3, deep=30)
FEW = trials(2, deep=30)
PLAN_ALL = ("/hub/catalogue", "/hub/best")
"""These plan every model of the catalogue at each question: seconds of processor time."""
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
FUZZED = [row for row in ENDPOINTS if row.path not in ("/shutdown", "/events", "/machine", "/bundle", "/doctor")]
"""Without what ends the gateway, what never ends by itself, and what probes the computer each time."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.slow) if number % 5 or row.path in PLAN_ALL else row
        for number, row in enumerate(FUZZED)
    ],
    ids=lambda row: f"{row.method} {row.path}",
)
def test_nothing_made_from_the_document_breaks_a_route(real_gateway: RealGateway, row: AdminEndpoint) -> None:
    headers = {"Authorization": f"Bearer {real_gateway.port_file.token}"}
    cases = SCHEMA[PREFIX + row.path][row.method].as_strategy()

    examples = FEW if row.path in PLAN_ALL else EXAMPLES

    @settings(max_examples=examples, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=cases, is_known=st.booleans() if "{" in row.path else st.just(value=False))
    def check(case: Any, *, is_known: bool) -> None:  # noqa: ANN401 -- schemathesis does not export the type
        # No name stands for the model in use: which that is depends on the tests before, and one of them is damaged.
        assume(row.path != "/load" or not isinstance(case.body, dict) or case.body.get("model") != "")
        if is_known and case.path_parameters:
            case.path_parameters.update(list_names(real_gateway.client))
        case.call_and_validate(base_url=real_gateway.port_file.url, headers=headers, checks=CHECKS, timeout=PATIENCE_S)

    check()
    real_gateway.client.delete("/pause")  # or the rows after it would be tried on a gateway that loads nothing


def list_names(client: GatewayClient) -> dict[str, str]:
    """Return names that the variable parts of a path can have: of a model, and of a chat just begun and its answer."""
    chat = client.post("/chats", NewChat(model="quick"), Chat)
    turn = client.post(f"/chats/{chat.id}/turns", NewTurn(content="Hm?"), Turn)
    return {"name": "quick", "id": chat.id, "message": turn.answer.id}


CHANGEABLE = [row.name for row in SETTINGS if row.name != "gateway.port"]
"""The port is set by the environment, which cannot be changed from here."""
JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)


@settings(max_examples=100, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(changes=st.dictionaries(st.sampled_from(CHANGEABLE), JSON | st.lists(JSON, max_size=3), max_size=3))
def test_no_value_of_a_setting_breaks_the_gateway(real_gateway: RealGateway, changes: dict[str, object]) -> None:
    with suppress(BadRequest, Conflict):
        real_gateway.client.patch("/settings", changes, list[SettingInfo])
    infos = {info.name: info for info in real_gateway.client.get("/settings", list[SettingInfo])}
    real_gateway.client.patch("/settings", dict.fromkeys(changes), list[SettingInfo])
    assert infos.keys() == {row.name for row in SETTINGS}


@pytest.mark.slow
def test_the_document_is_a_document(real_gateway: RealGateway) -> None:
    call = CheckedCalls(real_gateway)
    _, kind, data = call.exchange("GET", f"{PREFIX}/openapi.json", None)
    assert (kind, json.loads(data)) == ("application/json", DOCUMENT)
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_schemas_keep_the_names_that_clients_were_generated_from() -> None:
    names = DOCUMENT["components"]["schemas"].keys()
    assert names >= set(PUBLISHED_NAMES.values())
    assert not names & {kind.__name__ for kind in PUBLISHED_NAMES}
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert references <= names


def test_the_table_is_the_one_the_contract_lists() -> None:
    """The docstring of `core.api` is what other programs were written against."""
    documented_routes = re.findall(
        r"^ +(GET|POST|PATCH|DELETE) +(/[^\s?\[]+)", app.core.api.__doc__ or "", re.MULTILINE
    )
    assert [(row.method, row.path) for row in ENDPOINTS] == documented_routes
