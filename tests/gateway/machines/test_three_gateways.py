"""A thousand requests over three paired gateways, of which one is killed and one sleeps: each has one answer.

The gateway that is asked has no such model itself.
"""

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from app.core.machines import MachineCode, MachineStanding, PairMachine
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import list_machines, list_names, start, wait_until
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.engines  # four gateways, and a minute: too long for each change
REQUESTS, AT_ONCE = 1000, 8
MODEL = "shared"


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[RealGateway]]:
    with ExitStack() as stack:
        started_gateways = []
        for name in ("lap", "desk", "box", "den"):
            home = tmp_path / name
            home.mkdir()
            if name != "lap":
                (home / "data" / "models").mkdir(parents=True)
                TinyLlama().write(home / "data" / "models" / f"{MODEL}.gguf")
            started_gateways.append(stack.enter_context(start(home, name)))
        for machine in started_gateways[1:]:
            code = machine.client.post("/machines/code", None, MachineCode).code
            host = f"127.0.0.1:{list_machines(machine).port}"
            started_gateways[0].client.post("/machines", PairMachine(host=host, code=code), MachineStanding)
        wait_until(lambda: {f"{MODEL}@{name}" for name in ("desk", "box", "den")} <= list_names(started_gateways[0]))
        yield started_gateways


def ask(gateway: RealGateway) -> str:
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]})
    with closing(http.client.HTTPConnection(gateway.port_file.url.partition("//")[2], timeout=PATIENCE_S)) as client:
        client.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = client.getresponse()
        text = reply.read()
    if reply.status != http.HTTPStatus.OK:
        return text.decode()
    return "answer" if json.loads(text)["choices"][0]["message"]["content"] else "nothing"


def test_a_thousand_requests_over_three_machines(gateways: list[RealGateway]) -> None:
    lap, desk, box, _den = gateways
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = []
        for number, outcome in enumerate(pool.map(lambda _number: ask(lap), range(REQUESTS))):
            results.append(outcome)
            if number == REQUESTS // 4:
                desk.kill()
            if number == REQUESTS // 2:
                psutil.Process(box.process.pid).suspend()
    psutil.Process(box.process.pid).resume()
    assert Counter(results) == {"answer": REQUESTS}
