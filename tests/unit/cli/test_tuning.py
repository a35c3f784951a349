"""`tune`: what it sends, what it leaves alone, and what it makes of the answers."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from app.cli import tuning
from app.core.models import (
    Companion,
    CompanionKind,
    EngineOption,
    ModelChoices,
    ModelSampling,
    ModelSettings,
    SetModel,
)

BEFORE = ModelSettings(pinned=True, context=4096, sampling=ModelSampling(top_k=5), loras=["/m/style.gguf"])
SHOWN = ModelChoices(
    model="m",
    settings=BEFORE,
    sampling=ModelSampling(temperature=0.6),
    sampling_source="m.gguf",
    engine="llama.cpp",
    engines=[EngineOption(id=name, name=name, is_installed=True) for name in ("llama.cpp", "other")],
    companions=[
        Companion(kind=CompanionKind.DRAFT, name="small", title="Small", size_bytes=1 << 30),
        Companion(kind=CompanionKind.PROJECTOR, name="/m/mmproj.gguf", title="mmproj.gguf", size_bytes=5, is_used=True),
    ],
)


class Gateway:
    """Shows one model, and keeps what is set."""

    def __init__(self) -> None:
        self.choices = SHOWN
        self.posts: list[ModelSettings] = []

    def get(self, path: str, _reply: object, **_more: object) -> ModelChoices:
        assert path == "/model-settings/team%2Fm"
        return self.choices

    def post(self, path: str, body: SetModel, _reply: object, **_more: object) -> ModelSettings:
        assert (path, body.model) == ("/model-settings", "team/m")
        self.posts.append(body.settings)
        return body.settings


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    monkeypatch.setattr(tuning, "connect_gateway", lambda: played_gateway)
    return played_gateway


def tune(*words: str) -> Result:
    return CliRunner().invoke(tuning.tune, ["team/m", *words])


def test_without_options_it_shows_what_is_and_what_could_be(gateway: Gateway) -> None:
    stdout = tune().stdout
    assert "top-k 5; else temperature 0.6 (from the model: m.gguf)" in stdout
    assert "draft: small, 1.0 GiB" in stdout
    assert "Also runs on  other" in stdout
    assert "mmproj.gguf" in stdout
    assert not gateway.posts


def test_what_is_not_named_stays_as_it_was(gateway: Gateway, tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")
    result = tune("--temperature", "0", "--engine", "other", "--template", str(template), "--no-model-sampling")
    assert result.exit_code == 0, result.output
    assert gateway.posts == [
        ModelSettings(
            pinned=True,
            context=4096,
            sampling=ModelSampling(top_k=5, temperature=0.0),
            loras=["/m/style.gguf"],
            engine="other",
            chat_template="{{ messages }}",
            uses_model_sampling=False,
        )
    ]


def test_files_are_sent_with_their_whole_paths(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    tune("--lora", "a.gguf", "--lora", "b.gguf", "--projector", "p.gguf", "--draft", "d.gguf")
    here = Path.cwd()
    settings = gateway.posts[0]
    assert settings.loras == [str(here / "a.gguf"), str(here / "b.gguf")]
    assert (settings.projector, settings.draft) == (str(here / "p.gguf"), str(here / "d.gguf"))
    tune("--projector", "none", "--draft", "small")
    assert (gateway.posts[1].projector, gateway.posts[1].draft) == ("none", "small")


def test_single_settings_and_all_of_them_can_be_taken_back(gateway: Gateway) -> None:
    tune("--unset", "context", "--unset", "top_k", "--unset", "loras")
    assert gateway.posts[0] == ModelSettings(pinned=True)
    tune("--reset", "--slots", "2")
    assert gateway.posts[1] == ModelSettings(slots=2)


def test_a_model_that_runs_otherwise_is_to_be_loaded_again(gateway: Gateway) -> None:
    gateway.choices = msgspec.structs.replace(SHOWN, needs_reload=True)
    assert "until it is loaded again" in tune("--top-k", "3").stderr


@pytest.mark.parametrize("words", [("--top-p", "0"), ("--kv-type", "q1"), ("--unset", "mood"), ("--template", "/no")])
def test_what_makes_no_sense_is_not_sent(gateway: Gateway, words: tuple[str, ...]) -> None:
    assert tune(*words).exit_code == 2
    assert not gateway.posts


def test_code_is_allowed_with_a_word_about_what_that_means_and_taken_back(gateway: Gateway) -> None:
    result = tune("--allow-code")
    assert gateway.posts[-1] == msgspec.structs.replace(BEFORE, allows_code=True)
    assert "with your permissions" in result.stderr
    assert "--no-allow-code" in result.stderr
    gateway.choices = msgspec.structs.replace(SHOWN, settings=gateway.posts[-1])
    assert "Custom code   allowed: programs among its files run with your permissions" in tune().stdout
    assert not tune("--no-allow-code").stderr
    assert gateway.posts[-1] == BEFORE


def test_that_a_model_brings_code_is_shown(gateway: Gateway) -> None:
    assert "Custom code   not allowed\n" in tune().stdout
    gateway.choices = msgspec.structs.replace(SHOWN, brings_code=True)
    assert "Custom code   not allowed, though the model contains some" in tune().stdout


def test_parsers_and_arguments_are_set_shown_and_taken_back(gateway: Gateway) -> None:
    assert "Tool calls" not in tune().stdout, "its engine has no parsers"
    tune("--tool-parser", "hermes", "--reasoning-parser", "qwen3", "--arg=--seed=7", "--arg", "--note", "--arg", "a b")
    words = ["--seed=7", "--note", "a b"]
    expected_settings = msgspec.structs.replace(
        BEFORE, tool_parser="hermes", reasoning_parser="qwen3", extra_args=words
    )
    assert gateway.posts[-1] == expected_settings
    gateway.choices = msgspec.structs.replace(SHOWN, settings=expected_settings)
    stdout = tune().stdout
    assert "Tool calls    hermes" in stdout
    assert "Reasoning     qwen3" in stdout
    assert "Arguments     --seed=7 --note 'a b'" in stdout
    tune("--unset", "extra_args", "--unset", "tool_parser", "--unset", "reasoning_parser")
    assert gateway.posts[-1] == BEFORE


def test_what_counts_where_no_parser_is_named(gateway: Gateway) -> None:
    takes = ["tool_parser", "reasoning_parser"]
    gateway.choices = msgspec.structs.replace(SHOWN, takes=takes, tool_parser="hermes")
    assert "Tool calls    hermes, by its chat template" in tune().stdout
    assert "Reasoning     read by Roundhouse" in tune().stdout
