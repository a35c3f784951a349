import pytest

from app.core.errors import BadRequest, NotFound
from app.hub.repositories.repository import RepoFile, Repository
from app.hub.repositories.variants import companions_of, find_variant, quantization_of, variants_of


def repository(*paths: str, size: int = 100) -> Repository:
    files = [RepoFile(path=path, size=size + place, oid="0" * 40) for place, path in enumerate(paths)]
    return Repository(name="org/repo", revision="main", commit="0" * 40, files=files)


def test_each_gguf_quantisation_is_a_variant_and_split_files_are_one() -> None:
    variants = variants_of(
        repository(
            "M-Q4_K_M.gguf",
            "Q8_0/M-Q8_0-00001-of-00002.gguf",
            "Q8_0/M-Q8_0-00002-of-00002.gguf",
            "M-UD-IQ2_XXS.gguf",
            "mmproj-F32.gguf",
            "mmproj-M-F16.gguf",
            "M.imatrix.gguf",
            "README.md",
        )
    )
    assert {variant.quantization: len(variant.files) for variant in variants} == {
        "Q4_K_M": 1,
        "Q8_0": 2,
        "UD-IQ2_XXS": 1,
    }
    assert variants[0].quantization == "Q8_0"
    assert variants[0].first == "Q8_0/M-Q8_0-00001-of-00002.gguf"
    assert {variant.projector.path for variant in variants if variant.projector} == {"mmproj-M-F16.gguf"}
    assert variants[0].files_to_fetch[-1].path == "mmproj-M-F16.gguf"


def test_a_split_model_with_a_part_missing_is_not_offered() -> None:
    variants = variants_of(repository("M-Q4_0-00001-of-00002.gguf", "M-Q8_0.gguf"))
    assert [variant.quantization for variant in variants] == ["Q8_0"]


def test_a_model_of_several_files_comes_with_what_it_needs_and_without_the_rest() -> None:
    (variant,) = variants_of(
        repository(
            "config.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "consolidated.safetensors",
            "pytorch_model.bin",
            "tokenizer.json",
            "tokenizer.model",
            "chat_template.jinja",
            "README.md",
            "original/params.json",
            "image.png",
        )
    )
    assert (variant.format, variant.first) == ("safetensors", "")
    assert {file.path for file in variant.files} == {
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "tokenizer.json",
        "tokenizer.model",
        "chat_template.jinja",
    }


def test_openvino_and_onnx_are_told_by_their_files() -> None:
    (openvino,) = variants_of(
        repository("openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "config.json", "a.pt")
    )
    assert openvino.format == "openvino"
    assert "a.pt" not in {file.path for file in openvino.files}
    onnx = variants_of(repository("cpu-int4/genai_config.json", "cpu-int4/model.onnx", "cpu-int4/x.bin", "config.json"))
    assert [(variant.format, variant.first, len(variant.files)) for variant in onnx] == [("onnx-genai", "cpu-int4", 2)]


def test_pickles_and_nothing_are_refused_in_words() -> None:
    with pytest.raises(BadRequest, match="pickle"):
        variants_of(repository("config.json", "pytorch_model.bin"))
    with pytest.raises(NotFound, match="no model files"):
        variants_of(repository("README.md"))
    with pytest.raises(NotFound, match="no model files"):
        variants_of(repository("lora.safetensors"))


@pytest.mark.parametrize("query", ["q4_k_m", "M-Q4_K_M", "M-Q4_K_M.gguf"])
def test_a_variant_is_named_by_quantisation_or_file(query: str) -> None:
    assert find_variant(variants_of(repository("M-Q4_K_M.gguf", "M-Q8_0.gguf")), query).quantization == "Q4_K_M"


def test_a_variant_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(NotFound, match="no Q5_0") as error:
        find_variant(variants_of(repository("M-Q4_K_M.gguf", "M-Q8_0.gguf")), "Q5_0")
    assert "Q4_K_M" in error.value.hint


@pytest.mark.parametrize(
    ("stem", "quantization"),
    [
        ("Model-7B-Q4_K_M", "Q4_K_M"),
        ("model.Q5_0", "Q5_0"),
        ("model-iq4_xs", "IQ4_XS"),
        ("model-UD-Q4_K_XL", "UD-Q4_K_XL"),
        ("model-bf16", "BF16"),
        ("gpt-oss-20b-mxfp4", "MXFP4"),
        ("model-TQ1_0", "TQ1_0"),
        ("Qwen3", ""),
        ("model", ""),
    ],
)
def test_the_quantisation_is_read_from_the_end_of_a_name(stem: str, quantization: str) -> None:
    assert quantization_of(stem) == quantization


def test_drafts_and_adapters_are_no_variants_and_projectors_come_along() -> None:
    files = ("M-Q4_K_M.gguf", "M-draft-Q8_0.gguf", "style-lora-f16.gguf", "mmproj-M-F16.gguf", "generation_config.json")
    repository_found = repository(*files)
    (only,) = variants_of(repository_found)
    assert [file.path for file in only.files_to_fetch] == [
        "M-Q4_K_M.gguf",
        "mmproj-M-F16.gguf",
        "generation_config.json",
    ]
    assert [(kind.value, file.path) for kind, file in companions_of(repository_found)] == [
        ("draft", "M-draft-Q8_0.gguf"),
        ("lora", "style-lora-f16.gguf"),
    ]


def test_where_all_are_named_like_that_they_are_models() -> None:
    merged_repository = repository("My-lora-merged-lora-Q4_K_M.gguf", "My-lora-merged-lora-Q8_0.gguf")
    assert len(variants_of(merged_repository)) == 2
    assert companions_of(merged_repository) == []


def test_an_adapter_is_named_as_one() -> None:
    with pytest.raises(BadRequest, match="is a LoRA adapter") as error:
        variants_of(repository("adapter_config.json", "adapter_model.safetensors"))
    assert error.value.code == "adapter_only"
