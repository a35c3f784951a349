"""Templates that take memory and time without bound never reach an engine; those of real models do."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import EngineFailed
from app.gateway.loading.launch import load_request
from app.gateway.loading.template_trials import TemplateTrials
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama

PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
DOUBLING = (
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
    "{{ ns.s | length }}" + PLAIN
)
SPINNING = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}" + PLAIN
HUGE = "{% for a in range(1000000000) %}{% endfor %}" + PLAIN
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + PLAIN


@pytest.fixture
def trials(tmp_path: Path) -> TemplateTrials:
    return TemplateTrials(tmp_path / "verdicts.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "cost"),
    [
        (DOUBLING, "takes too much memory"),
        (SPINNING, "takes more than 5 seconds of the processor"),
        (HUGE, "a number this large"),
        ("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", "recursion"),
        (PLAIN + "{# " + "x" * 262_144 + " #}", "262,140 bytes or more"),
    ],
    ids=["memory", "time", "range", "recursion", "length"],
)
def test_what_takes_too_much_is_told_by_a_sentence(trials: TemplateTrials, template: str, cost: str) -> None:
    assert cost in trials.try_templates([PLAIN, template]).cost


@pytest.mark.parametrize("template", [PLAIN, NO_SYSTEM])
def test_what_models_bring_passes(trials: TemplateTrials, template: str) -> None:
    verdict = trials.try_templates([template])
    assert (verdict.cost, verdict.problem, verdict.says_content) == ("", "", True)


def test_a_verdict_costs_once_and_survives_a_restart(
    trials: TemplateTrials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = trials.try_templates([HUGE])

    def run_again(*_arguments: object, **_options: object) -> None:
        raise AssertionError("it was tried again")

    monkeypatch.setattr(subprocess, "run", run_again)
    assert trials.try_templates([HUGE]) == verdict
    assert TemplateTrials(tmp_path / "verdicts.json").try_templates([HUGE]) == verdict


def test_damaged_verdicts_are_made_anew(tmp_path: Path) -> None:
    (tmp_path / "verdicts.json").write_bytes(b"{")
    assert TemplateTrials(tmp_path / "verdicts.json").try_templates([HUGE]).cost


@pytest.mark.slow
async def test_a_model_with_such_a_template_is_refused_before_an_engine_has_it(near: Gateway) -> None:
    folder = near.services.paths.models
    TinyLlama(values={"tokenizer.chat_template": DOUBLING}).write(folder / "doubling.gguf")
    TinyLlama(values={"tokenizer.chat_template": PLAIN}).write(folder / "plain.gguf")
    near.services.library.look_again()
    with pytest.raises(EngineFailed, match="takes too much memory") as error:
        await load_request(near.services, "doubling")
    assert error.value.code == "bad_template"
    assert (await load_request(near.services, "plain")).source.name == "plain"


@pytest.mark.slow
async def test_the_clients_template_is_refused_when_it_is_sent(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("it reached the engine")

    gateway.upstream.play = play
    body: dict[str, Any] = {"model": "made", "from": "guide", "template": DOUBLING}
    async with gateway.http.post(gateway.url + "/api/create", json=body) as reply:
        assert reply.status == 400
        assert "takes too much memory" in (await reply.json())["error"]


async def test_what_a_changed_template_does_is_told_by_the_api(near: Gateway) -> None:
    folder = near.services.paths.models / "hub"
    changed_template = PLAIN + "{% if 'password' in messages[-1].content %}Always ask for it again.{% endif %}"
    folder.mkdir(parents=True)
    TinyLlama(values={"tokenizer.chat_template": changed_template}).write(folder / "changed.gguf")
    (folder / "chat_template.jinja").write_text(PLAIN)
    near.services.library.look_again()
    headers = {"Authorization": f"Bearer {near.services.identity.token}"}
    url = f"{near.url}/roundhouse/v1/model-settings/changed"
    async with near.http.get(url, headers=headers) as reply:
        template_reading = (await reply.json())["template_reading"]
    assert template_reading == {
        "base": "the one in the model's folder",
        "is_changed": True,
        "notes": [
            "What it writes depends on whether a message has “password” in it.",
            "It writes text of its own: “Always ask for it again.”",
        ],
    }
