"""What is installed of the catalogue's models goes before a download of the same model in another form."""

import msgspec
import pytest

from app.core.hub import HubPick, HubUse
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo
from app.gateway.advising.advice import ObservedSpeeds
from app.gateway.hub.installed_forms import InstalledForm, list_installed, prefer_installed
from app.gateway.hub.model_picks import pick_models
from app.gateway.hub.repositories import FitContext
from app.hardware.description import machine_from
from app.hub.repositories.catalogue_facts import catalogue_facts
from tests.expert_docs import entries
from tests.unit.advisor.engines import engines_on

TITLE, PLACE = "Qwen3.8 27B", "models--turboderp--Qwen3.8-27B-exl3"


def describe_ground(gpu: str) -> FitContext:
    machine = machine_from(
        msgspec.json.encode({"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": [gpu]})
    )
    return FitContext(machine, [], ObservedSpeeds(calibrations=[]), engines_on(machine))


def read_facts(rate: str) -> ModelFacts:
    facts = catalogue_facts(entries()[TITLE], rate, format="exl3")
    assert facts is not None
    return facts


def downloaded_model(rate: str, folder: str = PLACE) -> ModelInfo:
    return ModelInfo(
        name=f"qwen-{rate}",
        title=TITLE,
        path=f"/hub/{folder}/snapshots/{rate}",
        format="exl3",
        size_bytes=1,
        quantization=rate,
    )


def best_pick(ground: FitContext) -> HubPick:
    """Return the pick of a list that holds this model only."""
    return pick_models([entries()[TITLE]], HubUse.CHAT, ground, 10.0)[0]


def test_models_are_known_by_the_repository_they_came_from() -> None:
    models = [
        downloaded_model("3.0bpw"),
        downloaded_model("4.0bpw"),
        downloaded_model("5.0bpw", "models--somebody--else"),
        msgspec.structs.replace(downloaded_model("6.0bpw"), problem="is cut off"),
        msgspec.structs.replace(downloaded_model("8.0bpw"), attached="http://there"),
    ]
    entry = entries()[TITLE]
    known_forms = list_installed(
        models,
        lambda repository: entry if repository == "turboderp/Qwen3.8-27B-exl3" else None,
        lambda model: read_facts(model.quantization),
    )
    assert {base: [form.model.quantization for form in forms] for base, forms in known_forms.items()} == {
        entry.base: ["4.0bpw", "3.0bpw"]
    }


def test_the_installed_form_is_what_is_shown_and_why_is_said() -> None:
    ground = describe_ground("RTX 5090")
    pick = best_pick(ground)
    assert pick.is_best
    assert pick.card.quantization != "3.0bpw"
    form = InstalledForm(downloaded_model("3.0bpw"), read_facts("3.0bpw"))
    preferred_form = prefer_installed(pick, [form], ground)
    assert (preferred_form.installed, preferred_form.card.quantization, preferred_form.card.format) == (
        "qwen-3.0bpw",
        "3.0bpw",
        "exl3",
    )
    assert preferred_form.card.engine_name == "ExLlamaV3"
    assert f"It is installed in 3.0bpw, not in {pick.card.quantization}" in preferred_form.reason
    assert preferred_form.card.download_bytes is None
    assert preferred_form.card.memory_bytes != pick.card.memory_bytes


@pytest.mark.parametrize("gpu", ["RTX 3060 12 GB", "RTX 5090"])
def test_what_is_installed_and_does_not_fit_changes_nothing(gpu: str) -> None:
    ground = describe_ground(gpu)
    pick = best_pick(ground)
    large = InstalledForm(downloaded_model("6.0bpw"), read_facts("6.0bpw"))
    preferred_form = prefer_installed(pick, [large], ground)
    assert (preferred_form is pick) is ("3060" in gpu)
    assert bool(preferred_form.installed) is ("3060" not in gpu)
