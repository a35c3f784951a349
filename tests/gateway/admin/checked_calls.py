"""The document of Roundhouse's API, and calls whose replies are checked against it."""

import http.client
import json
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from jsonschema import Draft202012Validator

from app.core.api import PREFIX
from app.gateway.admin.routes import ENDPOINTS, openapi_document
from tests.gateway.admin.real_gateway import RealGateway
from tests.patience import PATIENCE_S

DOCUMENT: dict[str, Any] = json.loads(openapi_document(ENDPOINTS))


class CheckedCalls:
    """Calls that check every reply against the document, and note which rows of it they covered."""

    def __init__(self, gateway: RealGateway) -> None:
        self._port_file = gateway.port_file
        self.covered_rows: set[tuple[str, str]] = set()

    def __call__(self, method: str, path: str, body: object = None, **names: str) -> Any:  # noqa: ANN401 -- any JSON
        query = {name: value for name, value in names.items() if f"{{{name}}}" not in path}
        where = PREFIX + path.format_map({name: quote(value, safe="") for name, value in names.items()})
        status, kind, data = self.exchange(method, f"{where}?{urlencode(query)}", body)
        responses = DOCUMENT["paths"][PREFIX + path][method.lower()]["responses"]
        assert str(status) in responses, data
        self.covered_rows.add((method, path))
        content = responses[str(status)].get("content")
        if content is None:
            assert data == b""
            return None
        schema = content[kind]["schema"]
        if kind == "application/json":
            return read_valid(schema, data)
        if kind == "application/octet-stream":
            return data
        event = schema["properties"]["data"]["contentSchema"]
        return [read_valid(event, line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]

    def exchange(self, method: str, target: str, body: object) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(urlsplit(self._port_file.url).netloc, timeout=PATIENCE_S)
        headers = {"Authorization": f"Bearer {self._port_file.token}"}
        try:
            data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
            connection.request(method, target, data, headers)
            reply = connection.getresponse()
            return reply.status, reply.headers.get_content_type(), reply.read()
        finally:
            connection.close()


def read_valid(schema: dict[str, Any], data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    value = json.loads(data)
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(value)
    return value
