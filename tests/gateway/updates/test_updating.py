"""Updates as the gateway runs them: looked for when asked or due, installed only when asked, called off at any time."""

import asyncio
import base64
import datetime as dt
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app import __version__
from app.config.paths import Paths
from app.config.programs import AppInstallation, previous_path
from app.core.errors import Conflict, NotFound, RoundhouseError, StorageFault, Unavailable
from app.core.events import Event, UpdateJobChanged, UpdatesChanged
from app.core.updates import InstallationKind, InstallUpdate, UpdateJob
from app.gateway import own_updates
from app.gateway.own_updates import WEEK_S, Updates, is_due
from app.gateway.services import Limits, Services
from app.updates import exchange, methods
from app.updates.manifest import UpdateRefused
from tests.gateway.played import Upstream, played_services
from tests.patience import until
from tests.range_server import Hub, serve_ranges
from tests.releases import DAY, NOW, Publisher, archive

NEWER = "99.0"
FILE = f"roundhouse-{NEWER}-linux-x86_64.tar.xz"


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    with serve_ranges(Hub()) as hub:
        yield Publisher(tmp_path, hub)


@pytest.fixture
def environ(publisher: Publisher) -> dict[str, str]:
    return {"ROUNDHOUSE_UPDATES_URL": publisher.url}


@pytest.fixture
async def services(
    paths: Paths, environ: dict[str, str], limits: Limits, upstream: Upstream
) -> AsyncIterator[Services]:
    update_services = await played_services(paths, environ, limits, upstream)
    yield update_services
    await update_services.http.close()
    await update_services.speed_measurements.close()
    await update_services.chats.close()
    update_services.keys.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "roundhouse"
    place.mkdir()
    (place / "roundhouse").write_text("old")
    return place


Make = Callable[[InstallationKind], Updates]


@pytest.fixture
async def make(services: Services, publisher: Publisher, place: Path) -> AsyncIterator[Make]:
    all_updates: list[Updates] = []

    def make(kind: InstallationKind) -> Updates:
        command = "git pull" if kind is InstallationKind.SOURCE else ""
        installation = AppInstallation(kind=kind, place=place, command=command)
        all_updates.append(Updates(services, installation, keys_file=publisher.keys_file))
        return all_updates[-1]

    yield make
    for service in all_updates:
        await service.close()


@pytest.fixture
def updates(make: Make) -> Updates:
    return make(InstallationKind.ARCHIVE)


@pytest.fixture
def stops(services: Services) -> list[str]:
    stopped_names: list[str] = []
    object.__setattr__(services, "stop", lambda: stopped_names.append("stopped"))
    return stopped_names


@pytest.fixture
def is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried out runs: `test_ways` and the end-to-end test run it for real."""
    monkeypatch.setattr(methods, "rehearse", lambda *_args: None)


async def refusal(updates: Updates) -> RoundhouseError:
    with pytest.raises(RoundhouseError) as error:
        await updates.check()
    return error.value


async def wait_for_end(updates: Updates) -> UpdateJob:
    await until(lambda: updates.job.last is not None and updates.job.last.is_done)
    assert updates.job.last is not None
    return updates.job.last


async def test_what_is_newer_is_told_with_its_notes(updates: Updates, publisher: Publisher, services: Services) -> None:
    publisher.publish(NEWER, {FILE: b"x" * 1000})
    assert (await updates.state()).release is None
    with services.events.subscribe() as events:
        check = await updates.check()
        assert isinstance(await anext(aiter(events)), UpdatesChanged)
    assert check.release is not None
    assert (check.release.version, check.release.size_bytes, check.release.problem) == (NEWER, 1000, "")
    assert (check.release.released, check.checked_at is not None) == (f"{NOW:%Y-%m-%d}", True)
    assert "**better**" in check.release.notes
    assert (check.kind, check.unavailable, check.previous) == (InstallationKind.ARCHIVE, "", "")


async def test_the_present_version_is_no_news(updates: Updates, publisher: Publisher) -> None:
    publisher.publish(__version__)
    assert (await updates.check()).release is None


async def test_nothing_is_asked_while_offline_or_without_a_key(
    updates: Updates, publisher: Publisher, services: Services
) -> None:
    publisher.publish(NEWER)
    services.settings.change_values({"network.offline": True})
    assert (await refusal(updates)).code == "offline"
    services.settings.change_values({"network.offline": None})
    publisher.keys_file.write_text("# nobody\n")
    refusal_text = await refusal(updates)
    assert (refusal_text.code, refusal_text.status) == ("no_update_key", 409)
    assert "trusts no update key" in (await updates.state()).unavailable
    assert publisher.hub.requests == []
    services.paths.update_keys_file.write_text(publisher.public_key)
    assert (await updates.check()).release is not None


async def test_what_is_tampered_with_or_another_s_is_refused(updates: Updates, publisher: Publisher) -> None:
    content = publisher.publish(NEWER)
    good = publisher.hub.files["/updates/stable.json.sig"].decode()
    publisher.serve(content.replace(b"better", b"worse!"), good)
    assert (await refusal(updates)).code == "update_signature"
    stranger = base64.b64encode(Ed25519PrivateKey.generate().sign(content)).decode()
    publisher.serve(content, stranger)
    assert (await refusal(updates)).code == "update_signature"
    assert (await updates.state()).release is None


async def test_old_descriptions_are_refused_once_newer_ones_were_seen(
    updates: Updates, make: Make, publisher: Publisher
) -> None:
    publisher.publish(NEWER)
    await updates.check()
    publisher.publish("98.0")
    assert (await refusal(updates)).code == "update_downgrade"
    publisher.publish(NEWER, issued=(NOW - dt.timedelta(hours=1)).isoformat())
    assert (await refusal(make(InstallationKind.DEB))).code == "update_downgrade", "also after a restart"
    release = (await updates.state()).release
    assert release is not None
    assert release.version == NEWER


async def test_what_is_older_than_this_copy_is_refused(updates: Updates, publisher: Publisher) -> None:
    publisher.publish("0.0.1")
    assert (await refusal(updates)).code == "update_downgrade"


async def test_a_description_whose_time_is_over_is_refused_also_when_it_was_kept(
    updates: Updates, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish(NEWER, expires=(NOW - DAY).isoformat())
    assert (await refusal(updates)).code == "update_expired"
    publisher.publish(NEWER)
    await updates.check()
    monkeypatch.setattr(own_updates, "_now", lambda: NOW + 31 * DAY)
    assert (await updates.state()).release is None


async def test_channels_do_not_mix(updates: Updates, publisher: Publisher, services: Services) -> None:
    publisher.publish("100.0rc1", channel="beta")
    publisher.publish(NEWER)
    services.settings.change_values({"updates.channel": "beta"})
    release = (await updates.check()).release
    assert release is not None
    assert release.version == "100.0rc1"
    services.settings.change_values({"updates.channel": "stable"})
    assert (await updates.state()).release is None, "what beta says is not what stable says"
    release = (await updates.check()).release
    assert release is not None
    assert release.version == NEWER
    publisher.hub.files["/updates/stable.json"] = publisher.hub.files["/updates/beta.json"]
    publisher.hub.files["/updates/stable.json.sig"] = publisher.hub.files["/updates/beta.json.sig"]
    assert (await refusal(updates)).code == "update_channel"


async def test_nothing_published_and_a_server_in_trouble_are_said(updates: Updates, publisher: Publisher) -> None:
    assert isinstance(await refusal(updates), NotFound)
    publisher.hub.statuses["/updates/stable.json"] = 500
    assert isinstance(await refusal(updates), Unavailable)


async def test_a_version_is_skipped_and_told_again(updates: Updates, publisher: Publisher) -> None:
    publisher.publish(NEWER)
    await updates.check()
    skipped_release = (await updates.skip(NEWER)).release
    assert skipped_release is not None
    assert skipped_release.is_skipped
    again = (await updates.skip("")).release
    assert again is not None
    assert not again.is_skipped
    with pytest.raises(UpdateRefused):
        await updates.skip("; rm -rf /")


@pytest.mark.usefixtures("is_fine")
async def test_an_installation_waits_for_answers_and_ends_the_service(
    updates: Updates,
    publisher: Publisher,
    services: Services,
    stops: list[str],
    place: Path,
) -> None:
    publisher.publish(NEWER, {FILE: archive(NEWER, "new")})
    await updates.check()
    services.supervisor.in_flight = 2  # type: ignore[attr-defined]  # the stand-in's
    job = await updates.install(InstallUpdate(version=NEWER))
    assert (job.verb, job.version, job.is_done) == ("install", NEWER, False)
    await until(lambda: updates.job.last is not None and updates.job.last.waits_for == 2)
    assert stops == []
    with pytest.raises(Conflict) as error:
        await updates.install(InstallUpdate(version="98.0"))
    assert error.value.code == "update_running"
    services.supervisor.in_flight = 0  # type: ignore[attr-defined]  # as above
    outcome = await wait_for_end(updates)
    assert (outcome.error, outcome.stage, stops) == (None, "Done", ["stopped"])
    afterwards = services.afterwards
    assert afterwards.goes_on
    assert afterwards.deed is not None
    afterwards.deed()
    assert (place / "roundhouse").read_text() == "new"


@pytest.mark.usefixtures("is_fine")
async def test_who_cannot_wait_is_not_made_to(
    updates: Updates, publisher: Publisher, services: Services, stops: list[str]
) -> None:
    publisher.publish(NEWER, {FILE: archive(NEWER, "new")})
    await updates.check()
    services.supervisor.in_flight = 1  # type: ignore[attr-defined]  # the stand-in's
    begun_state = await updates.install(InstallUpdate(version=NEWER))
    await until(lambda: updates.job.last is not None and updates.job.last.waits_for == 1)
    again = await updates.install(InstallUpdate(version=NEWER, now=True))
    assert again.id == begun_state.id
    assert (await wait_for_end(updates)).error is None
    assert stops == ["stopped"]


@pytest.mark.usefixtures("is_fine")
async def test_waiting_can_be_called_off(
    updates: Updates, publisher: Publisher, services: Services, stops: list[str], place: Path
) -> None:
    publisher.publish(NEWER, {FILE: archive(NEWER, "new")})
    await updates.check()
    services.supervisor.in_flight = 1  # type: ignore[attr-defined]  # the stand-in's
    await updates.install(InstallUpdate(version=NEWER))
    await until(lambda: updates.job.last is not None and updates.job.last.waits_for == 1)
    await updates.cancel()
    job = await wait_for_end(updates)
    assert job.error is not None
    assert (job.error.code, stops, (place / "roundhouse").read_text()) == ("cancelled", [], "old")
    await updates.cancel()


@pytest.mark.usefixtures("is_fine", "stops")
async def test_a_download_tells_how_far_it_is(
    updates: Updates, publisher: Publisher, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = archive(NEWER, "new", more={"large": bytes(range(256)) * 8000})
    publisher.publish(NEWER, {FILE: content})
    await updates.check()
    events: list[Event] = []
    monkeypatch.setattr(services.events, "publish", events.append)
    await updates.install(InstallUpdate(version=NEWER))
    await wait_for_end(updates)
    jobs = [event.job for event in events if isinstance(event, UpdateJobChanged)]
    stages = list(dict.fromkeys(job.stage for job in jobs))
    assert stages == ["Downloading", "Unpacking", "Testing it", "Installing", "Done"]
    assert jobs[-1].done_bytes == len(content)
    assert {job.total_bytes for job in jobs} == {0, len(content)}


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda content: content[:-50], "checksum_mismatch"),
        (lambda content: content[:-1] + b"!", "checksum_mismatch"),
    ],
)
@pytest.mark.usefixtures("is_fine")
async def test_a_file_that_is_not_what_was_signed_is_never_used(
    updates: Updates,
    publisher: Publisher,
    stops: list[str],
    spoil: Callable[[bytes], bytes],
    code: str,
) -> None:
    publisher.publish(NEWER, {FILE: archive(NEWER, "new")})
    publisher.hub.files[f"/updates/{FILE}"] = spoil(publisher.hub.files[f"/updates/{FILE}"])
    await updates.check()
    await updates.install(InstallUpdate(version=NEWER))
    job = await wait_for_end(updates)
    assert job.error is not None
    assert (job.error.code, stops) == (code, [])


async def test_only_the_version_that_was_shown_is_installed(updates: Updates, publisher: Publisher) -> None:
    with pytest.raises(Conflict) as error:
        await updates.install(InstallUpdate(version=NEWER))
    assert error.value.code == "no_update"
    publisher.publish(NEWER, {FILE: b"x"})
    await updates.check()
    with pytest.raises(Conflict) as error:
        await updates.install(InstallUpdate(version="99.1"))
    assert error.value.code == "no_update"


async def test_a_copy_that_a_command_updates_says_the_command(make: Make, publisher: Publisher) -> None:
    publisher.publish(NEWER, {FILE: b"x"})
    updates = make(InstallationKind.SOURCE)
    check = await updates.check()
    assert check.release is not None
    assert (check.command, check.release.problem) == ("git pull", "")
    with pytest.raises(Conflict) as error:
        await updates.install(InstallUpdate(version=NEWER))
    assert error.value.code == "update_by_hand"
    assert "git pull" in error.value.hint


async def test_a_version_without_a_file_for_this_copy_says_so(make: Make, publisher: Publisher) -> None:
    publisher.publish(NEWER, {FILE: b"x"})
    updates = make(InstallationKind.APPIMAGE)
    check = await updates.check()
    assert check.release is not None
    assert "no file for a copy like this one (appimage" in check.release.problem
    with pytest.raises(Conflict) as error:
        await updates.install(InstallUpdate(version=NEWER))
    assert error.value.code == "update_by_hand"


async def test_without_the_right_to_write_nothing_is_fetched(
    updates: Updates, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish(NEWER, {FILE: b"x"})
    await updates.check()
    count = len(publisher.hub.requests)
    monkeypatch.setattr(os, "access", lambda *_args: False)
    with pytest.raises(StorageFault) as error:
        await updates.install(InstallUpdate(version=NEWER))
    assert error.value.code == "update_not_allowed"
    assert len(publisher.hub.requests) == count


@pytest.mark.usefixtures("is_fine", "stops")
async def test_what_fails_when_everything_is_closed_is_said_by_the_next_service(
    updates: Updates,
    make: Make,
    publisher: Publisher,
    services: Services,
    place: Path,
) -> None:
    publisher.publish(NEWER, {FILE: archive(NEWER, "new")})
    await updates.check()
    await updates.install(InstallUpdate(version=NEWER))
    await wait_for_end(updates)
    exchange.remove_path(exchange.next_of(place))
    became: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.gateway.runtime.exec_module", lambda module, **_how: became.append(module))
        services.afterwards.do()
    assert became == ["app.gateway"], "the service goes on with what is there"
    failure = (await make(InstallationKind.ARCHIVE).state()).failure
    assert failure is not None
    assert "could not be replaced" in failure.sentence
    assert (await updates.check()).failure is None


async def test_the_way_back_is_a_job_too(updates: Updates, services: Services, stops: list[str], place: Path) -> None:
    with pytest.raises(Conflict) as error:
        await updates.roll_back()
    assert error.value.code == "no_previous"
    previous = previous_path(place)
    previous.mkdir()
    (previous / "roundhouse").write_text("older")
    (previous / "installation.json").write_text('{"kind": "tar.xz", "version": "0.0.9"}')
    assert (await updates.state()).previous == "0.0.9"
    job = await updates.roll_back()
    assert (job.verb, job.version) == ("rollback", "0.0.9")
    assert (await wait_for_end(updates)).error is None
    assert stops == ["stopped"]
    assert services.afterwards.deed is not None
    services.afterwards.deed()
    assert (place / "roundhouse").read_text() == "older"


async def test_our_own_mistakes_are_said_as_such(
    updates: Updates, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publisher.publish(NEWER, {FILE: b"x"})
    await updates.check()
    monkeypatch.setattr(own_updates, "fetch_file", lambda *_args: 1 / 0)
    await updates.install(InstallUpdate(version=NEWER))
    job = await wait_for_end(updates)
    assert job.error is not None
    assert job.error.code == "internal"
    caplog.clear()


async def test_weekly_only_where_it_is_wanted(updates: Updates, publisher: Publisher, services: Services) -> None:
    publisher.publish(NEWER)
    await updates.look_if_due()
    assert publisher.hub.requests == []
    services.settings.change_values({"updates.weekly": True, "network.offline": True})
    await updates.look_if_due()
    assert publisher.hub.requests == []
    services.settings.change_values({"network.offline": None})
    await updates.look_if_due()
    assert (await updates.state()).release is not None
    count = len(publisher.hub.requests)
    await updates.look_if_due()
    assert len(publisher.hub.requests) == count


async def test_a_weekly_look_that_fails_is_only_logged(
    updates: Updates, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    services.settings.change_values({"updates.weekly": True})
    await updates.look_if_due()
    assert "could not be looked for" in caplog.text
    caplog.clear()


def test_a_week_is_a_week_and_a_clock_set_back_is_no_excuse() -> None:
    assert is_due(None, 0.0)
    assert not is_due(1000.0, 1000.0 + WEEK_S - 1)
    assert is_due(1000.0, 1000.0 + WEEK_S)
    assert is_due(1000.0, 999.0)


async def test_what_was_fetched_of_older_versions_goes(updates: Updates, services: Services) -> None:
    old = services.paths.updates / "0.0.1"
    old.mkdir(parents=True)
    watch_task = asyncio.create_task(updates.watch())
    await until(lambda: not old.exists())
    watch_task.cancel()
    await asyncio.gather(watch_task, return_exceptions=True)
