"""OpenVINO Model Server: its command line, and a stand-in that reads it as the real one would."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.supervisor.readiness import EngineEndpoint, is_ready
from engines.api import (
    EngineInstallation,
    EngineLocation,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelFormat,
    ModelSource,
)
from engines.openvino.launch import ADAPTER
from tests.patience import PATIENCE_S

KEY = "a-key-for-one-launch"
STAND_IN = """#!{python}
import argparse, json
from http.server import BaseHTTPRequestHandler, HTTPServer
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("rest_bind_address", "api_key_file", "model_name", "model_path", "task", "target_device", "log_level",
             "kv_cache_precision", "enable_prefix_caching"):
    parser.add_argument("--" + name)
for name in ("rest_port", "max_num_seqs", "cache_size", "max_num_batched_tokens"):
    parser.add_argument("--" + name, type=int)
parser.add_argument("--metrics_enable", action="store_true")
told = parser.parse_args()
key, asked = open(told.api_key_file).read(), []
class Handler(BaseHTTPRequestHandler):
    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        asked.append(self.path)
        loads = len(asked) < 3
        is_ready = self.path == f"/v2/models/{{told.model_name}}/ready" and not loads
        self.answer(200 if is_ready else 404, {{}})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {{key}}":
            return self.answer(401, {{"error": "Unauthorized"}})
        self.answer(200, {{"choices": [{{"message": {{"content": told.target_device}}}}]}})
    def log_message(self, *arguments):
        pass
HTTPServer((told.rest_bind_address, told.rest_port), Handler).serve_forever()
"""


def make_plan(executable: Path, port: int = 50_001, **options: Any) -> LaunchPlan:  # noqa: ANN401 -- of several types
    place = EngineLocation(folder=executable.parent, version="2026.4.1", backend="gpu", executable=executable)
    installation = ADAPTER.probe(place)
    assert isinstance(installation, EngineInstallation)
    model = ModelSource(name="tiny", path=Path("/models/tiny"), format=ModelFormat.OPENVINO)
    return ADAPTER.plan(
        model, LaunchOptions(**options), ListenOptions(host="127.0.0.1", port=port, key=KEY), installation
    )


def test_the_command_line() -> None:
    plan = make_plan(Path("/opt/ovms/bin/ovms"), slots=8, kv_type="q8_0", prefix_cache=False, max_batch_tokens=512)
    (process,) = plan.processes
    assert " ".join(process.argv) == (
        "/opt/ovms/bin/ovms --rest_bind_address 127.0.0.1 --rest_port 50001 --api_key_file api_key --model_name tiny "
        "--model_path /models/tiny --task text_generation --target_device GPU --max_num_seqs 8 "
        "--enable_prefix_caching false --kv_cache_precision u8 --max_num_batched_tokens 512 --cache_size 0 "
        "--metrics_enable --log_level INFO"
    )
    assert process.env["LD_LIBRARY_PATH"] == "/opt/ovms/lib"
    assert (plan.readiness.path, plan.slots) == ("/v2/models/tiny/ready", 8)


def test_what_it_decides_itself_is_left_out_and_said() -> None:
    plan = make_plan(Path("/opt/ovms/bin/ovms"), context=4096, threads=3)
    assert [omission.option for omission in plan.left_out] == ["context", "threads"]
    assert plan.context is None
    assert not make_plan(Path("/opt/ovms/bin/ovms")).left_out


def test_its_key_is_in_a_file_and_nowhere_else() -> None:
    plan = make_plan(Path("/opt/ovms/bin/ovms"))
    (process,) = plan.processes
    assert KEY not in " ".join([*process.argv, *process.env.values()])
    assert [(file.name, file.content) for file in plan.files] == [("api_key", KEY.encode())]


@pytest.mark.parametrize("options", [{"lora": (Path("/x"),)}, {"kv_type": "q4_0"}, {"chat_template": "x"}])
def test_what_it_cannot_honour_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        make_plan(Path("/opt/ovms/bin/ovms"), **options)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script")
async def test_it_is_ready_once_its_model_is_and_wants_the_key(tmp_path: Path, unused_port: int) -> None:
    program = tmp_path / "bin" / "ovms"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    plan = make_plan(program, unused_port)
    for file in plan.files:
        (tmp_path / file.name).write_bytes(file.content)
    (process,) = plan.processes
    env = {**os.environ, **process.env}
    server_process = await asyncio.create_subprocess_exec(*process.argv, cwd=tmp_path, env=env)
    try:
        endpoint = EngineEndpoint(base_url=plan.base_url, key=KEY, served_name=plan.served_name)
        readiness = [await is_ready(endpoint, plan.readiness)]
        async with asyncio.timeout(PATIENCE_S):
            while not readiness[-1]:
                await asyncio.sleep(0.02)
                readiness.append(await is_ready(endpoint, plan.readiness))
        assert len(readiness) > 2, "it says 404 while it loads"
        async with aiohttp.ClientSession() as http:
            path = f"{plan.base_url}{ADAPTER.descriptor.routes['chat']}"  # type: ignore[index]  # Route is a string
            async with http.post(path, json={}) as reply:
                assert reply.status == 401
            async with http.post(path, json={}, headers={"Authorization": f"Bearer {KEY}"}) as answer:
                assert (await answer.json(content_type=None))["choices"][0]["message"]["content"] == "GPU"
    finally:
        server_process.kill()
        await server_process.wait()
