"""The gateway as a program and its keys: it does not open to others without one, and the command line makes it."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from app.cli import main as cli
from app.client.discovery import ensure_gateway, find_running_gateway, has_ended
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.programs import child_environment, module_command
from app.core.api import EXIT_NO_KEY, Status
from app.core.errors import GatewayGone
from app.core.keys import KeyInfo, NewKey
from app.gateway.entry.keys import KeyStore
from tests.gateway.admin.real_gateway import run_gateway
from tests.patience import PATIENCE_S
from tests.written import contents_below

ANYWHERE = "0.0.0.0"  # noqa: S104 -- what is tested


def start_program(home: Path, **extra: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        module_command("app.gateway"),
        env=child_environment({"ROUNDHOUSE_HOME": str(home), **extra}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_unauthenticated_exposure_to_the_network_is_refused_at_the_start(tmp_path: Path, unused_port: int) -> None:
    process = start_program(tmp_path, ROUNDHOUSE_GATEWAY_HOST=ANYWHERE, ROUNDHOUSE_GATEWAY_PORT=str(unused_port))
    assert process.returncode == EXIT_NO_KEY
    assert "roundhouse keys new" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.slow
def test_a_damaged_file_of_keys_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "keys.json").write_text("{")
    process = start_program(tmp_path)
    assert process.returncode == 1
    assert "keys.json" in process.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    return Paths(config=tmp_path / "config", data=tmp_path / "data", state=tmp_path / "state", logs=tmp_path / "logs")


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def keys_command() -> Command:
    def run(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(cli.roundhouse, ["keys", *arguments])
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.slow
def test_keys_are_made_listed_and_revoked_by_the_command_line(
    tmp_path: Path, home: Paths, unused_port: int, keys_command: Command
) -> None:
    with run_gateway(tmp_path, unused_port):
        code, out, err = keys_command("new", "my editor", "--expires", "30d")
        assert (code, out.startswith("rh-"), len(out.split())) == (0, True, 1)
        assert "cannot be shown again" in err
        code, out, _ = keys_command("new", "admin", "--scope", "manage", "--scope", "inference", "--json")
        new_key = json.loads(out)["key"]
        assert (code, new_key["scopes"], new_key["expires_at"]) == (0, ["inference", "manage"], None)
        code, listing, _ = keys_command()
        assert code == 0
        assert "my editor" in listing
        assert new_key["key"] not in listing
        keys = json.loads(keys_command("list", "--json")[1])["keys"]
        assert [key["name"] for key in keys] == ["my editor", "admin"]
        assert keys[0]["expires_at"] == pytest.approx(time.time() + 30 * 86_400, abs=60)
        assert json.loads(keys_command("--json")[1])["keys"] == keys
        assert keys_command("revoke", "my editor")[0] == 0
        assert keys_command("revoke", "my editor")[0] == 2
        assert keys_command("new", "admin")[0] == 2
    assert [key.name for key in KeyStore(home.keys_file).list_keys()] == ["admin"]


@pytest.mark.parametrize(
    "arguments",
    [("new", "a/b"), ("new", " "), ("new", "x", "--expires", "soon"), ("new", "x", "--expires", "2020-02-30")],
)
def test_what_cannot_be_a_key_is_said_before_anything_starts(
    home: Paths, keys_command: Command, arguments: tuple[str, ...]
) -> None:
    code, out, err = keys_command(*arguments)
    assert (code, out) == (2, "")
    assert err.strip()
    assert "regex" not in err
    assert not home.state.exists()


def stop(client: GatewayClient) -> None:
    client.post("/shutdown", None, object)
    deadline = time.monotonic() + PATIENCE_S
    while not has_ended(client.gateway):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
async def test_the_first_key_can_be_made_although_the_settings_wait_for_one(
    home: Paths, unused_port: int, keys_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDHOUSE_GATEWAY_PORT", str(unused_port))
    home.create_folders()
    home.settings_file.write_text(f'[gateway]\nhost = "{ANYWHERE}"\n')
    with pytest.raises(GatewayGone, match="did not start"):
        ensure_gateway(home)
    code, key, output = keys_command("new", "first")
    first = find_running_gateway(home)
    assert first is not None
    assert (code, "this computer only" in output) == (0, True)
    assert GatewayClient(first).get("/status", Status).reachable_at == []
    stop(GatewayClient(first))
    second = GatewayClient(ensure_gateway(home))
    try:
        status = second.get("/status", Status)
        assert (status.url, status.asks_for_keys) == (f"http://127.0.0.1:{unused_port}", True)
        async with aiohttp.ClientSession() as http:
            for headers, expected_status in (({}, 401), ({"Authorization": f"Bearer {key.strip()}"}, 200)):
                async with http.get(f"{status.url}/v1/models", headers=headers) as reply:
                    assert reply.status == expected_status
        assert second.get("/keys", list[KeyInfo])[0].last_used_at
    finally:
        stop(second)


async def test_keys_are_in_no_argument_log_or_other_file(tmp_path: Path, home: Paths, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        key = gateway.client.post("/keys", NewKey(name="one"), dict[str, object])["key"]
        assert isinstance(key, str)
        base, wrong, prompt = gateway.port_file.url, "rh-" + "W" * 43, "a prompt nobody else should read"
        async with aiohttp.ClientSession() as http:
            for headers in (
                {"Authorization": f"Bearer {key}"},
                {"x-api-key": wrong},
                {"X-Forwarded-For": "192.0.2.1", "api-key": wrong},
            ):
                body = {"model": "quick", "messages": [{"role": "user", "content": prompt}], "temperature": "hot"}
                async with http.post(f"{base}/v1/chat/completions", json=body, headers=headers) as reply:
                    text = await reply.text()
                async with http.post(
                    f"{base}/v1/chat/completions", data=f'{{"model": 1, "{prompt}"', headers=headers
                ) as reply:
                    text += await reply.text()
                assert key not in text
                assert wrong not in text
                assert prompt not in text
            async with http.get(f"{base}/metrics") as reply:
                assert prompt not in await reply.text()
    assert home.keys_file in nowhere_below(tmp_path, key, wrong, prompt)


def nowhere_below(folder: Path, *secrets: str) -> list[Path]:
    """Check that no file holds a secret, and return which were looked at."""
    written_files = contents_below(folder)
    for file, content in written_files.items():
        assert [secret for secret in secrets if secret.encode() in content] == [], file
    return list(written_files)
