"""What is set for a model, from the command to the real engine's answer and back."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths, guide_gguf
from app.core.engines import EngineStatus
from app.core.models import LoadModel, ModelChoices, ModelInfo, UnloadModel
from tests.end_to_end.conftest import Roundhouse
from tests.gguf_files import TinyLlama, lora_for

HELLO = [{"role": "user", "content": "hello"}]
TOLD = {"general.sampling.temp": 0.0}


@pytest.fixture(scope="module")
def models(home: Paths) -> Path:
    home.models.mkdir(parents=True, exist_ok=True)
    TinyLlama(values=TOLD).write(home.models / "told.gguf")
    TinyLlama(width=32, layers=1, name="Small").write(home.models / "small.gguf")
    lora_for(TinyLlama(), home.models / "style-lora.gguf")
    return home.models


@pytest.fixture(scope="module")
def gateway(models: Path, client: GatewayClient) -> GatewayClient:
    assert {"told", "small"} <= {model.name for model in client.get("/models", list[ModelInfo])}
    return client


def answer(gateway: GatewayClient, **wishes: object) -> Any:  # noqa: ANN401 -- JSON
    body = {"model": "told", "messages": HELLO, "max_tokens": 24, "ignore_eos": True, **wishes}
    url = gateway.get("/status", dict[str, Any])["url"] + "/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 -- loopback
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 -- as above
        return json.load(reply)


def text(gateway: GatewayClient, **wishes: object) -> str:
    content: str = answer(gateway, **wishes)["choices"][0]["message"]["content"]
    return content


def reload(gateway: GatewayClient) -> None:
    gateway.post("/unload", UnloadModel(model="told"), EngineStatus)
    gateway.post("/load", LoadModel(model="told"), EngineStatus)


@pytest.mark.slow
def test_what_is_set_reaches_the_engine_with_the_next_load(
    gateway: GatewayClient, roundhouse: Roundhouse, models: Path
) -> None:
    assert "temperature 0 (from the model: told.gguf)" in roundhouse("show", "told").stdout
    plain = text(gateway)
    assert text(gateway) == plain, "the model's own temperature of 0 counts"
    assert text(gateway, temperature=2.0) != plain, "a request's own goes first"

    result = roundhouse("tune", "told", "--draft", "small", "--lora", str(models / "style-lora.gguf"))
    assert result.returncode == 0, result.stderr
    assert "until it is loaded again" in result.stderr
    assert gateway.get("/model-settings/told", ModelChoices).needs_reload
    assert text(gateway) == plain

    reload(gateway)
    assert not gateway.get("/model-settings/told", ModelChoices).needs_reload
    styled_answer = answer(gateway)
    assert styled_answer["choices"][0]["message"]["content"] != plain
    assert styled_answer["timings"]["draft_n"] > 0

    roundhouse("tune", "told", "--reset")
    reload(gateway)
    assert text(gateway) == plain


def test_a_draft_with_other_tokens_is_refused_before_it_is_kept(gateway: GatewayClient, roundhouse: Roundhouse) -> None:
    result = roundhouse("tune", "told", "--draft", "guide")
    assert result.returncode == 2
    assert "cannot be" in result.stderr
    assert gateway.get("/model-settings/told", ModelChoices).settings.draft is None


@pytest.mark.slow
def test_a_draft_that_became_another_model_is_left_out_and_that_is_said(
    gateway: GatewayClient, roundhouse: Roundhouse, models: Path
) -> None:
    draft = models / "changing.gguf"
    TinyLlama(width=32, layers=1, name="Changing").write(draft)
    assert roundhouse("tune", "told", "--draft", str(draft)).returncode == 0
    draft.write_bytes(guide_gguf().read_bytes())
    try:
        reload(gateway)
        assert "draft_n" not in answer(gateway)["timings"]
        assert "The draft model is not used" in roundhouse("ps").stdout
    finally:
        roundhouse("tune", "told", "--reset")
        draft.unlink()
