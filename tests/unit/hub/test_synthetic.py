import json
import urllib.request
from pathlib import Path

import msgspec
import pytest

from app.hub.facts.folders import read_facts
from app.hub.synthetic import CALIBRATION, SyntheticShape, write_synthetic
from tests.bench.throughput import run_engine

SMALL = SyntheticShape(layers=2, hidden=256, heads=4, kv_heads=2, feed_forward=512)


@pytest.mark.parametrize("quantization", ["Q4_0", "Q8_0", "Q4_K_S"])
def test_the_file_is_a_llama_of_that_shape(tmp_path: Path, quantization: str) -> None:
    shape = SyntheticShape(layers=2, hidden=256, heads=4, kv_heads=2, feed_forward=512, quantization=quantization)
    path = tmp_path / "model.gguf"
    size = write_synthetic(path, shape)
    assert path.stat().st_size == size
    facts = read_facts(path)
    assert facts.architecture == "llama"
    assert facts.quantization == quantization
    assert (len(facts.layers), facts.hidden) == (2, 256)
    layer = facts.layers[0]
    assert (layer.heads, layer.kv_heads, layer.key_dim, layer.feed_forward) == (4, 2, 64, 512)
    assert {group.type for group in facts.weights} == {quantization.removesuffix("_S"), "F32"}
    assert size - facts.file_bytes < 20_000


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    first, again, other = tmp_path / "first", tmp_path / "again", tmp_path / "other"
    write_synthetic(first, SMALL, seed=1)
    write_synthetic(again, SMALL, seed=1)
    write_synthetic(other, SMALL, seed=2)
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_weights_are_noise_and_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_synthetic(path, SMALL)
    tail = path.read_bytes()[-4096:]
    assert len(set(tail)) > 200


def test_the_shape_for_calibrating_takes_a_third_of_a_gigabyte() -> None:
    matrices = 2 * CALIBRATION.hidden**2 + 2 * CALIBRATION.hidden * CALIBRATION.kv_heads * CALIBRATION.head_width
    parameters = CALIBRATION.layers * (matrices + 3 * CALIBRATION.hidden * CALIBRATION.feed_forward)
    assert 0.28e9 < parameters * 4.5 / 8 < 0.33e9


def test_a_file_that_cannot_be_finished_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.hub.synthetic._write_tensor", full)
    path = tmp_path / "model.gguf"
    with pytest.raises(OSError, match="space"):
        write_synthetic(path, SMALL)
    assert not path.exists()


@pytest.mark.real_engine
@pytest.mark.parametrize("quantization", ["Q8_0", "Q4_K_S"])
def test_llama_cpp_runs_it_and_tells_how_fast(tmp_path: Path, quantization: str) -> None:
    path = tmp_path / "model.gguf"
    write_synthetic(path, msgspec.structs.replace(SMALL, quantization=quantization))
    with run_engine(path) as target:
        body = {"prompt": "the way", "n_predict": 24, "ignore_eos": True}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {target.key}"}
        request = urllib.request.Request(f"{target.url}/completion", json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 -- our own engine
            timings = json.loads(reply.read())["timings"]
    assert timings["predicted_n"] == 24
    assert timings["predicted_ms"] > 0
