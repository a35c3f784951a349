"""Endpoints that somebody else runs: watched, never started; every way they can fail is a sentence."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor import remote
from app.supervisor.dialing import ForbiddenAddress
from app.supervisor.policy import MemoryNeeds
from app.supervisor.pool import LoadRequest, Supervisor, SupervisorFolders, SupervisorPolicy
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import RemoteModel, list_remote_models
from app.supervisor.scheduling import PLACES
from engines.api import LaunchOptions, ModelFormat, ModelSource, RemoteEndpoint
from engines.attached import launch
from engines.registry import ADAPTERS
from tests.unit.supervisor.conftest import Recorder

KEY = "sk-remote"


def _make_untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


HERE = EngineEndpoint(base_url="http://127.0.0.1:9/v1", key="", served_name="m")
CARD = {"id": "big", "max_model_len": 4096}


class Remotely:
    """The endpoint, as a test plays it. `models` answers the list of models."""

    def __init__(self) -> None:
        self.authorizations: list[str | None] = []
        self.status = 200
        self.body: object = {"object": "list", "data": [CARD]}
        self.url = ""

    async def models(self, request: web.Request) -> web.Response:
        self.authorizations.append(request.headers.get("Authorization"))
        headers = {"Location": "/elsewhere"} if self.status in range(300, 400) else {}
        return web.json_response(self.body, status=self.status, headers=headers)


@pytest.fixture
async def far() -> AsyncIterator[Remotely]:
    played_far, app = Remotely(), web.Application()
    app.router.add_get("/v1/models", played_far.models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    played_far.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield played_far
    await runner.cleanup()


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_READINESS", msgspec.structs.replace(launch._READINESS, interval_s=0.02))


@pytest.fixture
async def supervisor(folders: SupervisorFolders, recorder: Recorder) -> AsyncIterator[Supervisor]:
    new_supervisor = Supervisor(
        {"attached": ADAPTERS["attached"]}, folders, SupervisorPolicy(max_loaded=1), recorder.publish
    )
    yield new_supervisor
    await new_supervisor.close()


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., LoadRequest]:
    def make_request(far: Remotely, name: str = "m", key: str = KEY) -> LoadRequest:
        record = tmp_path / f"{name}.json"
        record.write_text("{}")
        key_file = tmp_path / f"{name}.key"
        key_file.write_text(key)
        there = RemoteEndpoint(url=far.url, served_as="big", key_file=key_file)
        source = ModelSource(name=name, path=record, format=ModelFormat.REMOTE, remote=there)
        options = LaunchOptions(context=4096, slots=8)
        return LoadRequest(engine="attached", source=source, options=options, needs=MemoryNeeds(pools={PLACES: 0}))

    return make_request


Ask = Callable[..., LoadRequest]


async def test_an_endpoint_is_ready_at_once_and_nothing_is_started(
    supervisor: Supervisor, far: Remotely, request_for: Ask, folders: SupervisorFolders
) -> None:
    async with supervisor.lease(request_for(far)) as lease:
        assert (lease.base_url, lease.key, lease.served_name) == (far.url, KEY, "big")
        assert (lease.status.context, lease.status.pid, lease.status.memory_bytes) == (4096, None, None)
        assert KEY not in repr(lease)
    assert far.authorizations == [f"Bearer {KEY}"]
    assert not list(folders.records.glob("*"))
    assert (await supervisor.unload_model("m")).state is EngineState.STOPPED


async def test_without_a_key_none_is_sent(supervisor: Supervisor, far: Remotely, request_for: Ask) -> None:
    await supervisor.ensure_ready(request_for(far, key=""))
    assert far.authorizations == [None]


@pytest.mark.parametrize(
    ("status", "body", "code", "sentence"),
    [
        (401, {}, "auth", "does not accept the key"),
        (403, {}, "auth", "does not accept the key"),
        (302, {}, "unreachable", "redirects to another address"),
        (500, {}, "unreachable", "answers 500"),
        (200, {"data": [{"id": "other"}]}, "unreachable", "no model called 'big'"),
        (200, {"data": "none"}, "unreachable", "does not list models"),
        (200, [], "unreachable", "does not list models"),
    ],
)
async def test_what_is_wrong_there_is_a_failure_in_a_sentence(  # noqa: PLR0913, PLR0917 -- one row of the table
    supervisor: Supervisor, far: Remotely, request_for: Ask, status: int, body: object, code: str, sentence: str
) -> None:
    far.status, far.body = status, body
    with pytest.raises(EngineFailed, match=sentence) as error:
        await supervisor.ensure_ready(request_for(far))
    assert error.value.code == code
    assert KEY not in str(error.value)


async def test_an_endpoint_that_comes_back_is_used_at_once_however_often_it_was_away(
    supervisor: Supervisor, far: Remotely, request_for: Ask
) -> None:
    request = request_for(far)
    far.status = 503
    for _ in range(6):
        with pytest.raises(EngineFailed):
            async with supervisor.lease(request):
                pass
    far.status = 200
    async with supervisor.lease(request) as lease:
        assert lease.status.state is EngineState.READY


@pytest.mark.usefixtures("quick_looks")
async def test_one_that_is_lost_is_noticed_without_a_request_and_a_hiccup_is_not_a_loss(
    supervisor: Supervisor, far: Remotely, request_for: Ask, recorder: Recorder
) -> None:
    request = request_for(far)
    await supervisor.ensure_ready(request)
    far.status = 500
    failed_status = await recorder.until_state(EngineState.FAILED)
    assert failed_status.failure is not None
    assert failed_status.failure.code == "unreachable"
    assert len(far.authorizations) == 3, "the first look, and two that failed"


async def test_several_take_no_room_from_each_other_or_from_others(
    folders: SupervisorFolders, recorder: Recorder, far: Remotely, request_for: Ask
) -> None:
    new_supervisor = Supervisor(
        {"attached": ADAPTERS["attached"]}, folders, SupervisorPolicy(max_loaded=1), recorder.publish
    )
    names = ["a", "b", "c", "d"]
    for name in names:
        await new_supervisor.ensure_ready(request_for(far, name=name))
    assert [status.model for status in new_supervisor.list_statuses()] == names
    await new_supervisor.close()


async def test_nobody_there_is_said_so() -> None:
    failure = await remote.check_endpoint(HERE, "/models")
    assert failure is not None
    assert "127.0.0.1:9 does not answer" in failure.sentence


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "2852039166", "0.0.0.0"],  # noqa: S104 -- not bound
)
async def test_no_way_of_writing_it_reaches_a_machines_secrets(host: str) -> None:
    failure = await remote.check_endpoint(
        EngineEndpoint(base_url=f"http://{host}/v1", key="", served_name="m"), "/models"
    )
    assert failure is not None
    assert "never contacted" in failure.sentence


async def test_a_name_that_leads_there_does_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(*_args: object, **_options: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    failure = await remote.check_endpoint(
        EngineEndpoint(base_url="http://metadata.example/v1", key="", served_name="m"), "/models"
    )
    assert failure is not None
    assert "never contacted" in failure.sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (_make_untrusted(), "cannot be verified: self-signed"),
        (TimeoutError(), "did not answer within"),
        (ForbiddenAddress(), "never contacted"),
        (ConnectionResetError("reset"), "does not answer"),
        (ValueError("not an HTTP answer"), "does not answer"),
    ],
)
async def test_every_trouble_on_the_way_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    async def fails(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(EngineEndpoint, "send_request", fails)
    failure = await remote.check_endpoint(HERE, "/models")
    assert failure is not None
    assert sentence in failure.sentence
    assert failure.hint


@pytest.mark.parametrize(
    ("card", "context"),
    [
        ({"max_model_len": 32768}, 32768),
        ({"loaded_context_length": 8192, "max_context_length": 131072}, 8192),
        ({"loaded_context_length": None, "max_context_length": 131072}, 131072),
        ({"context_length": 1000}, 1000),
        ({"context_window": 1000}, 1000),
        ({"meta": {"n_ctx_train": 2048}}, 2048),
        ({"meta": {"n_ctx": 512, "n_ctx_train": 2048}}, 512),
        ({"max_model_len": 0}, None),
        ({}, None),
    ],
)
def test_the_context_is_read_under_every_name_it_has(card: dict[str, object], context: int | None) -> None:
    assert msgspec.convert({"id": "m", **card}, RemoteModel).context == context


async def test_the_list_is_read_whole(far: Remotely) -> None:
    (model,) = await list_remote_models(EngineEndpoint(base_url=far.url, key="", served_name=""), "/models")
    assert (model.id, model.context) == ("big", 4096)


async def test_an_endpoint_of_somebody_elses_is_not_asked_whether_it_still_answers(
    supervisor: Supervisor, request_for: Callable[..., LoadRequest], far: Remotely
) -> None:
    async with supervisor.lease(request_for(far)) as lease:
        assert await supervisor.is_answering(lease) is None
