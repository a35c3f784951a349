import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.hub.repositories.model_reference import ModelReference, parse_reference

UNDERSTOOD = {
    "org/repo": ModelReference(repository="org/repo"),
    "  org/repo  ": ModelReference(repository="org/repo"),
    "org/repo:Q4_K_M": ModelReference(repository="org/repo", quantization="Q4_K_M"),
    "org/repo@4.0bpw": ModelReference(repository="org/repo", revision="4.0bpw"),
    "org/repo@refs/pr/3": ModelReference(repository="org/repo", revision="refs/pr/3"),
    "org/repo/sub/file.gguf": ModelReference(repository="org/repo", file="sub/file.gguf"),
    "hf.co/org/repo:Q8_0": ModelReference(repository="org/repo", quantization="Q8_0"),
    "HF.co/org/repo": ModelReference(repository="org/repo"),
    "huggingface.co/org/repo": ModelReference(repository="org/repo"),
    "hf://org/repo@main": ModelReference(repository="org/repo", revision="main"),
    "https://huggingface.co/org/repo": ModelReference(repository="org/repo"),
    "https://huggingface.co/org/repo/": ModelReference(repository="org/repo"),
    "https://huggingface.co/org/repo?library=gguf#files": ModelReference(repository="org/repo"),
    "https://hf.co/org/repo/tree/6_0": ModelReference(repository="org/repo", revision="6_0"),
    "https://huggingface.co/org/repo/blob/main/a%20b.gguf": ModelReference(
        repository="org/repo", revision="main", file="a b.gguf"
    ),
    "https://huggingface.co/org/repo/resolve/main/q/x.gguf?download=true": ModelReference(
        repository="org/repo", revision="main", file="q/x.gguf"
    ),
    "http://mirror.local:8080/org/repo": ModelReference(repository="org/repo"),
    "qwen3": ModelReference(catalogue="qwen3"),
    "qwen3:8b": ModelReference(catalogue="qwen3", quantization="8b"),
    "library/qwen3:8b": ModelReference(catalogue="qwen3", quantization="8b"),
    "https://ollama.com/library/qwen3": ModelReference(catalogue="qwen3"),
    "library/repo/file.gguf": ModelReference(repository="library/repo", file="file.gguf"),
}


@pytest.mark.parametrize(("text", "reference"), UNDERSTOOD.items())
def test_what_people_type_is_understood(text: str, reference: ModelReference) -> None:
    assert parse_reference(text, endpoint="http://mirror.local:8080") == reference


NOT_UNDERSTOOD = [
    "",
    "   ",
    "/etc/passwd",
    "../up/down",
    "org/..",
    "org/repo/../../x",
    "org/repo@../x",
    "org/repo:",
    "org/repo:a b",
    "org /repo",
    "https://example.org/org/repo",
    "https://user:word@huggingface.co/org/repo",
    "https://huggingface.co/org/repo/tree",
    "https://[broken/org/repo",
    "ftp://huggingface.co/org/repo",
    "org/repo\nx",
    "x" * 600,
]


@pytest.mark.parametrize("text", [text for text in NOT_UNDERSTOOD if text != "org/repo:"])
def test_what_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as error:
        parse_reference(text)
    assert error.value.code == "bad_model_name"
    assert error.value.hint


@given(st.text(max_size=80))
def test_any_text_is_understood_or_refused_and_never_leads_out(text: str) -> None:
    try:
        reference = parse_reference(text)
    except BadRequest:
        return
    steps = f"{reference.repository}/{reference.file}/{reference.revision}".split("/")
    assert ".." not in steps
    assert parse_reference(reference.text) == reference
