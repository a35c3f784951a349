"""The bundle: secrets are planted wherever Roundhouse keeps or writes anything, and none is found in it."""

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from app.cli import main as cli
from app.client.bundle import save_bundle, zip_bundle
from app.config.paths import PROGRAM, Paths
from app.core.chats import NewChat
from app.core.errors import EnvironmentFault
from app.core.keys import KeyWithSecret, NewKey
from app.core.machine import BundleFile, DiagnosticBundle
from app.gateway.watching import bundle
from app.gateway.watching.bundle import last_lines
from app.hardware import doctor
from app.hardware.redaction import PrivateNames
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk
from tests.gateway.admin.real_gateway import run_gateway
from tests.gateway.played import Gateway

PROMPT = "the treasure lies below the third oak"
ANSWER = "dig at midnight"
USER, HOST = "lovelace", "analytical"
NAMED = {"manifest.json", "versions.json", "machine.json", "settings.json", "running.json", "requests.json"}
NAMED |= {"loads.json", "store.json", "metrics.txt", "logs/gateway.jsonl", "logs/gateway-start.log"}
PLANTED = {
    "a prompt": "treasure",
    "an answer": "midnight",
    "a title": "expedition",
    "a user": USER,
    "a host": HOST,
    "an address": "203.0.113.77",
    "a folder": "hush-hush",
    "a folder nobody told us of": "clandestine",
    "an allowed host": "secret-host.example",
    "an origin": "secret-page.example",
    "a bearer": "bearer-0123456789abcdef",
    "a mail address": "countess@example.org",
    "a password": "correct-horse-battery",
    "a Hugging Face token": "hf_abcdefghijklmnop",
    "a MAC address": "3c:22:fb:9a:71:0e",
}


@pytest.fixture(autouse=True)
def name_privates(monkeypatch: pytest.MonkeyPatch) -> None:
    private = PrivateNames(users=[USER], hosts=[f"{HOST}.example", HOST])
    for module in (bundle, doctor):
        monkeypatch.setattr(module, "names_here", lambda: private)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "hush-hush" / "models"
    return {
        "ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "1",
        "ROUNDHOUSE_MODELS_FOLDERS": str(folder),
        "ROUNDHOUSE_GATEWAY_ALLOWED_HOSTS": "secret-host.example",
        "ROUNDHOUSE_GATEWAY_ALLOWED_ORIGINS": "https://secret-page.example",
        "ROUNDHOUSE_INSPECTOR_BODIES": "true",
    }


def plant_logs(paths: Paths) -> None:
    """Write what careless programs write."""
    lines = [f"cannot read /home/{USER}/x.gguf on {HOST}", "peer 203.0.113.77:80 (3c:22:fb:9a:71:0e)"]
    lines += ["Authorization: Bearer bearer-0123456789abcdef", "mail countess@example.org", "token hf_abcdefghijklmnop"]
    lines += [
        "proxy http://u:correct-horse-battery@p.example",
        f"{paths.config}/hush-hush/models/a.gguf",
        "open /mnt/clandestine/x/b.gguf",
    ]
    lines += ["the token is token-of-this-gateway"]
    lines += [f"{PROGRAM}/engines/llama_cpp/worker.py:12: in {sys.prefix}/lib/x.py"]
    engine = [*lines, f"INFO request 1: prompt: '{PROMPT}'", f'{{"content": "{ANSWER}"}}', "llama_model_load: done"]
    paths.logs.mkdir(parents=True, exist_ok=True)
    (paths.logs / "engine-guide.log").write_text("\n".join(engine) + "\n")
    records = [json.dumps({"level": "error", "message": line, "extra": {"nested": [line]}}) for line in lines]
    (paths.logs / "gateway.jsonl").write_text("\n".join([*records, '{"message": "Listening"}', *lines]) + "\n")
    (paths.logs / "gateway-start.log").write_text("\n".join(lines) + "\n")


async def plant_conversations(gateway: Gateway) -> str:
    """Ask, be refused, keep a chat, and make a key, which is returned."""
    pen = Pen()
    pen.write(chunk(ANSWER), LAST)
    pen.end()
    gateway.upstream.play = pen.play
    messages = [{"role": "user", "content": PROMPT}]
    headers = {"User-Agent": f"{USER}-agent/1.0"}
    document = {"model": "guide", "messages": messages, "stream": True}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=document, headers=headers) as reply:
        assert ANSWER.encode() in await reply.read()

    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": f"cannot parse {PROMPT!r}", "code": 400}}, status=400)

    gateway.upstream.play = refuse
    assert (await gateway.chat(messages=messages))[0] == 400
    await Api(gateway).call("POST", "/chats", object, NewChat(model="guide", title="The expedition"))
    return (await Api(gateway).call("POST", "/keys", KeyWithSecret, NewKey(name=f"{USER}s laptop"))).key


async def test_no_secret_planted_anywhere_is_in_the_bundle(gateway: Gateway, paths: Paths) -> None:
    key = await plant_conversations(gateway)
    plant_logs(paths)
    bundle_info = await Api(gateway).call("GET", "/bundle", DiagnosticBundle)
    with zipfile.ZipFile(io.BytesIO(zip_bundle(bundle_info))) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(texts) == {*NAMED, "logs/engine-guide.log"}
    secrets = {**PLANTED, "the key": key, "its hash": gateway.services.paths.keys_file.read_text().split('"')[7]}
    secrets |= {"where it is installed": str(PROGRAM), "where its Python is": sys.prefix}
    secrets |= {"the data folder": str(paths.data), "the engine's key": gateway.upstream.key}
    for what, secret in secrets.items():
        assert [name for name, text in texts.items() if secret.lower() in (text + name).lower()] == [], what
    assert "Bearer ***" in texts["logs/gateway.jsonl"]
    assert "Listening" in texts["logs/gateway.jsonl"]
    assert "llama_model_load: done" in texts["logs/engine-guide.log"]


@pytest.mark.slow
async def test_the_bundle_says_what_is_in_it_and_helps(gateway: Gateway, paths: Paths) -> None:
    await plant_conversations(gateway)
    plant_logs(paths)
    bundle_info = await Api(gateway).call("GET", "/bundle", DiagnosticBundle)
    texts = {file.name: file.text for file in bundle_info.files}
    files = json.loads(texts["manifest.json"])["files"]
    assert [(entry["name"], entry["why"], entry["bytes"]) for entry in files] == [
        (file.name, file.why, len(file.text.encode())) for file in bundle_info.files[1:]
    ]
    assert all(file.why for file in bundle_info.files)
    requests = json.loads(texts["requests.json"])
    assert [request["outcome"] for request in requests] == ["refused", "ok"]
    assert requests[1]["completion_tokens"] == 3
    settings = {row["name"]: row for row in json.loads(texts["settings.json"])}
    assert settings["models.folders"] == {"name": "models.folders", "value": "(1)", "source": "environment"}
    assert settings["gateway.max_body_mib"]["value"] == 1
    assert json.loads(texts["store.json"])["rows"]["chats"] == 1
    assert json.loads(texts["machine.json"])["machine"]["os"]
    assert json.loads(texts["versions.json"])["packages"]["aiohttp"]
    assert "roundhouse_requests_total" in texts["metrics.txt"]


@pytest.mark.slow
async def test_a_bundle_of_an_empty_installation_is_one_too(gateway: Gateway) -> None:
    bundle_info = await Api(gateway).call("GET", "/bundle", DiagnosticBundle)
    assert {file.name for file in bundle_info.files} == {name for name in NAMED if not name.startswith("logs/")}


async def test_a_computer_that_cannot_be_examined_gets_its_bundle_all_the_same(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(**_: object) -> None:
        raise EnvironmentFault("Nothing could be read.", code="probe_failed")

    monkeypatch.setattr(bundle, "examine_and_report", examine)
    texts = {file.name: file.text for file in (await Api(gateway).call("GET", "/bundle", DiagnosticBundle)).files}
    assert json.loads(texts["machine.json"])["sentence"] == "Nothing could be read."
    assert json.loads(texts["versions.json"])["roundhouse"]


def test_only_the_end_of_a_long_log_is_taken(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text("".join(f"line {number:06}\n" for number in range(100_000)))
    assert last_lines(log, 3) == ["line 099997", "line 099998", "line 099999"]
    assert last_lines(log, 10**6)[0] == "line 056310", "the first of the half mebibyte is cut, so it is left out"
    assert last_lines(tmp_path / "none.log", 3) == []


BUNDLE = DiagnosticBundle(
    made_at=1.7e9, application="Roundhouse 1", files=[BundleFile(name="a/b.txt", why="Why", text="ä\n")]
)


def test_a_zip_file_tells_nothing_but_its_texts(tmp_path: Path) -> None:
    save_bundle(BUNDLE, tmp_path / "b.zip")
    assert (tmp_path / "b.zip").read_bytes() == zip_bundle(BUNDLE)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        (info,) = archive.infolist()
        assert (info.filename, info.date_time, info.comment, info.extra) == (
            "a/b.txt",
            (2023, 11, 14, 22, 13, 20),
            b"",
            b"",
        )
        assert archive.read(info).decode() == "ä\n"


def test_a_bundle_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot be written to .*none"):
        save_bundle(BUNDLE, tmp_path / "none" / "b.zip")


@pytest.mark.slow
def test_the_command_line_writes_it_and_lists_what_is_in_it(
    tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    file = tmp_path / "made.zip"
    with run_gateway(tmp_path, unused_port):
        result = CliRunner().invoke(cli.roundhouse, ["doctor", "--bundle", str(file)])
        assert (result.exit_code, "Read it before you share it" in result.stderr) == (0, True), result.output
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            assert archive.testzip() is None
        assert NAMED - {"logs/gateway-start.log"} <= set(names)
        assert all(name in result.stdout for name in names)
        again = CliRunner().invoke(cli.roundhouse, ["doctor", "--bundle", str(file), "--json"])
        assert {entry["name"] for entry in json.loads(again.stdout)["files"]} == set(names)
        both = CliRunner().invoke(cli.roundhouse, ["doctor", "--bundle", str(file), "--output", "x.json"])
        assert (both.exit_code, "cannot be used together" in both.stderr) == (2, True)
