"""`search`, `show` and `token`: what they ask the gateway, and what they make of its answers."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import search, token
from app.core.hub import HubResults, HubTokenState, SetHubToken, TokenPlace
from app.core.models import ModelChoices, ModelInfo, ModelSampling, ModelSettings, TemplateReading
from tests.demo import hub

HERE = ModelInfo(
    name="small", title="Small", path="/m/small.gguf", format="gguf", size_bytes=2 << 30, quantization="Q4_0"
)
KEPT = HubTokenState(place=TokenPlace.FILE, said="The token is in a file.")


class Gateway:
    """Answers from a table and keeps what was asked."""

    def __init__(self, replies: dict[str, object]) -> None:
        self.replies = replies
        self.requests: list[tuple[str, str, object]] = []

    def get(self, path: str, _reply: object, **_more: object) -> Any:  # noqa: ANN401 -- as the route has it
        self.requests.append(("GET", path, None))
        return self.replies[path.partition("?")[0]]

    def post(self, path: str, body: object, _reply: object, **_more: object) -> Any:  # noqa: ANN401 -- as above
        self.requests.append(("POST", path, body))
        return self.replies[path]

    def delete(self, path: str) -> None:
        self.requests.append(("DELETE", path, None))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway(
        {
            "/hub/search": hub.RESULTS,
            "/hub/best": hub.PICKS,
            "/hub/catalogue": hub.PICKS,
            "/hub/catalogue/look": None,
            "/hub/model": hub.MODEL,
            "/hub/token": KEPT,
            "/models": [HERE],
        }
    )
    for module in (search, token):
        monkeypatch.setattr(module, "connect_gateway", lambda: played_gateway)
    return played_gateway


def run(command: Any, *arguments: str, stdin: str | None = None) -> Result:  # noqa: ANN401 -- click's commands
    return CliRunner().invoke(command, list(arguments), input=stdin)


def test_every_filter_reaches_the_gateway(gateway: Gateway) -> None:
    arguments = "--format GGUF --task chat --publisher qwen --licence mit --sort likes --days 30 --open"
    result = run(search.search, "qwen3", "8b", *arguments.split(), "--min-params", "500m", "--max-params", "9.5B")
    assert result.exit_code == 0, result.output
    assert gateway.requests[-1][1] == (
        "/hub/search?text=qwen3+8b&format=gguf&task=chat&publisher=qwen&licence=mit&sort=likes"
        "&min_parameters=500000000&max_parameters=9500000000&days=30&gated=false"
    )


def test_a_line_per_model_says_whether_it_fits_and_how_to_get_it(gateway: Gateway) -> None:
    result = run(search.search, "qwen3")
    line = next(line for line in result.stdout.splitlines() if line.startswith("Qwen3-8B "))
    assert line.split() == [
        *("Qwen3-8B", "8.2B", "yes", "6.1", "GiB", "38", "tok/s", "gguf", "mlx", "awq", "exl3", "fp8"),
        "unsloth/Qwen3-8B-GGUF",
    ]
    assert "(gated)" in next(line for line in result.stdout.splitlines() if "gemma" in line)
    assert "--page more" in result.stderr
    assert "estimates" in result.stderr


def test_how_old_an_answer_is_is_said_and_nothing_found_too(gateway: Gateway) -> None:
    gateway.replies["/hub/search"] = hub.OFFLINE_RESULTS
    assert "2 h 10 min ago" in run(search.search, "qwen3").stderr
    gateway.replies["/hub/search"] = HubResults(cards=[], as_of=0.0)
    assert "Nothing was found" in run(search.search, "qwen3").stderr


def test_the_best_is_asked_for_by_use(gateway: Gateway) -> None:
    result = run(search.search, "--best", "coding")
    assert gateway.requests == [("GET", "/hub/best?use=coding", None)]
    assert "The best for chat" in result.stdout.splitlines()[1]


def test_the_catalogue_is_listed_and_has_been_looked_at(gateway: Gateway) -> None:
    result = run(search.search, "--catalogue", "--best", "vision", "gemma", "4")
    assert gateway.requests[0] == ("GET", "/hub/catalogue?use=vision&text=gemma+4", None)
    assert gateway.requests[-1] == ("POST", "/hub/catalogue/look", None)
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "Gemma 4 12B (new)" in lines["gemma4:12b"]
    assert "ask (gemma)" in lines["gemma4:12b"]
    assert " slow " in lines["command-a:111b"]
    assert "no (cc-by-nc-4.0)" in lines["command-a:111b"]
    assert "For conversation and hard questions" in lines["muse-glimmer:30b"]
    gateway.requests.clear()
    run(search.search, "--catalogue", "--json")
    assert [method for method, *_ in gateway.requests] == ["GET"], "a program that asks has not looked"
    gateway.replies["/hub/catalogue"] = []
    assert "no such model" in run(search.search, "--catalogue", "zip").stderr


@pytest.mark.parametrize("count", ["many", "7c", "-1b"])
def test_a_count_that_is_none_is_refused(gateway: Gateway, count: str) -> None:
    result = run(search.search, "x", f"--max-params={count}")
    assert result.exit_code == 2
    assert gateway.requests == [] or gateway.requests[-1][0] != "GET"


def test_a_model_that_is_here_is_shown_from_here(gateway: Gateway) -> None:
    gateway.replies["/model-settings/small"] = ModelChoices(
        model="small",
        settings=ModelSettings(sampling=ModelSampling(top_k=5)),
        sampling=ModelSampling(temperature=0.6),
        sampling_source="generation_config.json",
        engine="llama.cpp",
        aliases=["gpt-4o"],
        template_reading=TemplateReading(base="the model's own", is_changed=True, notes=["It includes other files."]),
    )
    result = run(search.show_model, "Small")
    assert "/m/small.gguf" in result.stdout
    assert "top-k 5; else temperature 0.6 (from the model: generation_config.json)" in result.stdout
    assert "gpt-4o" in result.stdout
    assert "This template was changed: it is not the same as the model's own." in result.stdout
    assert "It includes other files." in result.stdout
    assert [path for _, path, _ in gateway.requests] == ["/models", "/model-settings/small"]


def test_a_repository_is_shown_with_its_variants(gateway: Gateway) -> None:
    result = run(search.show_model, "unsloth/Qwen3-8B-GGUF")
    assert gateway.requests[-1][1] == "/hub/model?name=unsloth%2FQwen3-8B-GGUF"
    line = next(line for line in result.stdout.splitlines() if "Q5_K_M" in line)
    assert line.startswith("*")
    assert "33 (26 to 41)" in line
    assert "28k" in line
    assert "* Q5_K_M is recommended." in result.stdout
    gateway.replies["/hub/model"] = hub.GATED
    assert "sign in and accept its terms" in run(search.show_model, "google/gemma-3-12b-it").stderr


def test_json_is_versioned(gateway: Gateway) -> None:
    assert set(json.loads(run(search.search, "x", "--json").stdout)) == {"version", "search"}
    assert set(json.loads(run(search.show_model, "x/y", "--json").stdout)) == {"version", "hub_model"}


def test_a_token_is_read_from_a_pipe_and_not_shown(gateway: Gateway) -> None:
    result = run(token.token, "set", stdin="hf_secret12\n")
    assert gateway.requests == [("POST", "/hub/token", SetHubToken(token="hf_secret12\n"))]
    assert "hf_secret12" not in result.output
    assert KEPT.said in result.stdout
    run(token.token, "forget")
    assert ("DELETE", "/hub/token", None) in gateway.requests
