"""Which repositories are one model."""

from typing import Any

from app.core.hub import HubSearchHit
from app.hub.repositories.search import RepositoryHit, fold_repository, group_cards


def make_hit(
    name: str,
    base: str = "",
    relation: str = "",
    *,
    formats: tuple[str, ...] = ("gguf",),
    **more: Any,  # noqa: ANN401 -- any field
) -> RepositoryHit:
    return RepositoryHit(
        found=HubSearchHit(repository=name, formats=list(formats), **more), base=base, relation=relation
    )


def together(*hits: RepositoryHit) -> list[set[str]]:
    return [{repository.repository for repository in card.repositories} for card in group_cards(hits)]


def test_what_was_quantised_from_the_same_model_is_one_card() -> None:
    (card,) = group_cards(
        [
            make_hit("unsloth/Qwen3-8B-GGUF", "Qwen/Qwen3-8B", "quantized", downloads=5),
            make_hit("mlx-community/Qwen3-8B-4bit", "Qwen/Qwen3-8B", "quantized", formats=("mlx",), downloads=9),
            make_hit("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-Base", "finetune", formats=("safetensors",), parameters=8),
        ]
    )
    assert (card.base, card.title, card.parameters, card.downloads) == ("Qwen/Qwen3-8B", "Qwen3-8B", 8, 14)
    assert [repository.repository for repository in card.repositories] == [
        "mlx-community/Qwen3-8B-4bit",
        "unsloth/Qwen3-8B-GGUF",
        "Qwen/Qwen3-8B",
    ]


def test_a_finetune_is_a_model_of_its_own_and_so_are_its_quantised_forms() -> None:
    assert together(
        make_hit("org/Base", formats=("safetensors",)),
        make_hit("org/Tuned", "org/Base", "finetune", formats=("safetensors",)),
        make_hit("other/Tuned-GGUF", "org/Tuned", "quantized"),
    ) == [{"org/Base"}, {"org/Tuned", "other/Tuned-GGUF"}]


def test_a_quantised_model_that_says_nothing_is_told_by_its_name() -> None:
    assert together(
        make_hit("bartowski/Model-7B-Instruct-GGUF"),
        make_hit("org/Model-7B-Instruct", formats=("safetensors",)),
        make_hit("turbo/Model-7B-Instruct-exl3", formats=("exl3",)),
        make_hit("someone/Model-7B-Instruct-AWQ", formats=("awq",)),
    ) == [
        {
            "bartowski/Model-7B-Instruct-GGUF",
            "org/Model-7B-Instruct",
            "turbo/Model-7B-Instruct-exl3",
            "someone/Model-7B-Instruct-AWQ",
        }
    ]


def test_two_originals_of_one_name_stay_apart() -> None:
    assert (
        len(together(make_hit("a/Model", formats=("safetensors",)), make_hit("b/Model", formats=("safetensors",)))) == 2
    )


def test_quantised_again_leads_back_to_the_first() -> None:
    assert together(
        make_hit("a/Model-bf16", "org/Model", "quantized", formats=("mlx",)),
        make_hit("b/Model-GGUF", "a/Model-bf16", "quantized"),
    ) == [{"a/Model-bf16", "b/Model-GGUF"}]


def test_models_that_name_each_other_end_somewhere() -> None:
    assert sum(map(len, together(make_hit("a/X", "b/X", "quantized"), make_hit("b/X", "a/X", "quantized")))) == 2


def test_only_the_packing_is_folded_away() -> None:
    assert (
        fold_repository("org/Qwen3-8B-Q4_K_M-GGUF")
        == fold_repository("org/qwen3-8b-4bit")
        == fold_repository("org/Qwen3-8B-4.0bpw-h6-exl2")
    )
    assert fold_repository("org/Qwen3-8B-GGUF") != fold_repository("org/Qwen3-4B-GGUF")
    assert fold_repository("org/GGUF") == "gguf"
