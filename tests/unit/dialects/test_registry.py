"""Which dialect a request is made in, and what its clients know for "not now"."""

import pytest

from app.core.errors import BadRequest, Overloaded, Unavailable
from app.gateway.dialects.record import DialectName
from app.gateway.dialects.registry import dialect_of

CLAUDE = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/chat/completions", {}, "openai"),
        ("/v1/responses", {}, "openai"),
        ("/v1/nothing", {}, "openai"),
        ("/v1/messages", {}, "anthropic"),
        ("/v1/messages/count_tokens", {}, "anthropic"),
        ("/v1/models", CLAUDE, "anthropic"),
        ("/v1/models", {}, "openai"),
        ("/api/chat", CLAUDE, "ollama"),
        ("/api/chat", {}, "ollama"),
        ("/api/v0/chat/completions", {}, "lmstudio"),
        ("/api/v1/chat", {}, "lmstudio"),
        ("/v1beta/models/guide:generateContent", {}, "google"),
        ("/v1/models", {"x-goog-api-client": "x"}, "google"),
        ("/v1/models/guide:generateContent", {"x-goog-api-client": "x"}, "google"),
        ("/v1/chat/completions", {"x-goog-api-client": "x"}, "openai"),
        ("/infill", {}, "llama-server"),
        ("/v2/rerank", {}, "llama-server"),
        ("/roundhouse/v1/status", {}, "roundhouse"),
        ("/metrics", {}, "roundhouse"),
    ],
)
def test_the_address_and_the_header_tell_the_dialect(path: str, headers: dict[str, str], name: str) -> None:
    assert dialect_of(path, headers).name is DialectName(name)


@pytest.mark.parametrize(
    ("path", "full", "unavailable"),
    [
        ("/v1/chat/completions", 429, 503),
        ("/api/v0/completions", 429, 503),
        ("/api/v1/chat", 429, 503),
        ("/v1/messages", 529, 529),
        ("/api/chat", 503, 503),
        ("/infill", 503, 503),
        ("/roundhouse/v1/load", 503, 503),
    ],
)
def test_not_now_has_the_status_that_its_clients_know(path: str, full: int, unavailable: int) -> None:
    dialect = dialect_of(path, {})
    assert dialect.status_of(Overloaded("The queue is full.")) == full
    assert dialect.status_of(Unavailable("It is paused.")) == unavailable
    assert dialect.status_of(BadRequest("No.")) == 400
