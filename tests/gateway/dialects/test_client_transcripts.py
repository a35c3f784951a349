"""What coding agents asked when they were run for real is asked again, and answered as they were content with."""

import json
from collections.abc import Iterator

import pytest
from yarl import URL

from app.core.models import AttachEndpoint
from app.gateway.library.attached_endpoints import attach
from tests.agents import AGENTS, Agent
from tests.client_transcripts import (
    FOLDER,
    MODEL,
    ClientRequest,
    ClientTranscript,
    body_of,
    read_transcript,
    reply_form,
)
from tests.gateway.played import Gateway
from tests.scripted_endpoint import ScriptedEndpoint

_MODEL = "coder"
_LARGEST_BYTES = 24_000
_SECRETS = ("Bearer ", "sk-", "rh-", "/home/", "/root", "127.0.0.1")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint("/project") as scripted_endpoint:
        yield scripted_endpoint


async def ask_again(near: Gateway, transcript: ClientTranscript, request: ClientRequest) -> None:
    """Send a request, and compare what comes back: its status, its kind, and the places of its values."""
    url = URL(near.url + request.path.replace(MODEL, _MODEL), encoded=True).with_query(request.query)
    headers = {name: value for name, value in request.headers.items() if value and name != "content-encoding"}
    body = body_of(transcript, request, _MODEL)
    data = None if body is None else json.dumps(body).encode()
    async with near.http.request(request.method, url, data=data, headers=headers) as reply:
        content = await reply.read()
    assert (reply.status, reply.content_type) == (request.status, request.content_type), content
    assert set(request.reply) <= set(reply_form(reply.content_type, content)), request.path


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.tool)
async def test_what_an_agent_asked_is_answered_as_it_was(
    agent: Agent, near: Gateway, endpoint: ScriptedEndpoint
) -> None:
    transcript = read_transcript(agent.tool)
    assert (transcript.package, transcript.version) == (agent.package, agent.version)
    await attach(near.services, AttachEndpoint(url=endpoint.url, name=_MODEL))
    endpoint.requests.clear()
    for request in sorted(
        transcript.requests, key=lambda request: request.method == "GET"
    ):  # lists tell what is loaded
        await ask_again(near, transcript, request)
    assert endpoint.requests, "the model was asked"


def test_transcripts_are_small_and_tell_nothing_of_who_recorded_them() -> None:
    for file in FOLDER.iterdir():
        text = file.read_text(encoding="utf-8")
        assert len(text.encode()) <= _LARGEST_BYTES, file.name
        assert not [word for word in _SECRETS if word in text], file.name
