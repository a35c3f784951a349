"""What is made of an endpoint's address and list of models, and where requests to it can and cannot lead."""

import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest, NotFound
from app.gateway.exchange.resolving import Resolver
from app.gateway.library import attached_endpoints
from app.gateway.library.attached_endpoints import check_url
from app.supervisor import dialing
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import RemoteModel, check_endpoint

OWN = "http://127.0.0.1:11434"


@pytest.mark.parametrize(
    ("url", "expected_url"),
    [
        ("http://box:8000", "http://box:8000"),
        (" https://models.example.org/v1/ ", "https://models.example.org/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://127.0.0.1:11435", "http://127.0.0.1:11435"),
    ],
)
def test_an_address_is_taken_without_its_last_slash(url: str, expected_url: str) -> None:
    assert check_url(url, own=OWN) == expected_url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "box:8000",
        "//box",
        "http://",
        "gopher://box",
        "http://a@box",
        "http://box/?k=1",
        "http://box/#a",
        "http://b:x",
        "http://box\n.evil",
        "http://bo x",
        "http://[::1",
        "http://169.254.169.254",
        OWN,
        OWN + "/v1",
    ],
)
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        check_url(url, own=OWN)


@given(st.text(max_size=60))
def test_no_address_breaks_the_reader(url: str) -> None:
    with contextlib.suppress(BadRequest):
        assert check_url(url, own=OWN).startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("own", "requested_name", "is_one", "name"),
    [
        ("big", "", True, "big"),
        ("org/Big-70B", "", True, "org/Big-70B"),
        ("qwen3:latest", "", True, "qwen3"),
        ("/models/big.gguf", "", True, "models/big.gguf"),
        ("C:\\models\\big one.gguf", "", True, "C:-models-big-one.gguf"),
        ("big", "mine", True, "mine"),
        ("org/big", "mine", False, "mine/org/big"),
        ("\N{SNOWMAN}", "", True, "model"),
    ],
)
def test_names_are_the_endpoints_own_as_far_as_they_can_be(
    own: str, requested_name: str, name: str, *, is_one: bool
) -> None:
    assert attached_endpoints._name(RemoteModel(id=own), requested_name, is_one=is_one) == name


def test_a_hub_with_thousands_of_models_is_asked_for_some() -> None:
    many = [RemoteModel(id=f"m{number}") for number in range(501)]
    with pytest.raises(BadRequest, match="501 models"):
        attached_endpoints._choose_models(many, [])
    assert [model.id for model in attached_endpoints._choose_models(many, ["m7", "m3"])] == ["m7", "m3"]
    with pytest.raises(NotFound, match="lists no models"):
        attached_endpoints._choose_models([], [])


async def test_no_name_leads_a_request_to_a_machines_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(*_args: object, **_options: object) -> list[dict[str, object]]:
        return [{"host": "127.0.0.1"}, {"host": "169.254.169.254"}]

    resolver = Resolver()
    assert [address["host"] for address in await resolver.resolve("localhost", 80)] == ["127.0.0.1"]
    monkeypatch.setattr(resolver._system, "resolve", lookup)
    with pytest.raises(OSError, match="never contacted"):
        await resolver.resolve("metadata.example", 80)
    await resolver.close()


@pytest.fixture
async def tls_endpoint(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """An endpoint with a certificate of its own making, and that certificate."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl makes the certificate, and it is not here")
    arguments = [program, "req", *options, *names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(arguments, check=True, capture_output=True)  # noqa: ASYNC221 -- nothing else runs yet

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "big"}]})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://localhost:{runner.addresses[0][1]}/v1", certificate
    await runner.cleanup()


async def test_a_certificate_nobody_vouches_for_is_not_taken(
    tls_endpoint: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, certificate = tls_endpoint
    endpoint = EngineEndpoint(base_url=url, key="", served_name="big")
    failure = await check_endpoint(endpoint, "/models")
    assert failure is not None
    assert "certificate" in failure.sentence
    trusted_context = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(dialing, "_trust_context", lambda: trusted_context)
    assert await check_endpoint(endpoint, "/models") is None
    elsewhere = await check_endpoint(
        EngineEndpoint(base_url=url.replace("localhost", "127.0.0.1"), key="", served_name="big"), "/models"
    )
    assert elsewhere is not None, "it is vouched for under one name only"
    assert "certificate" in elsewhere.sentence
