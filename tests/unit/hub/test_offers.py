"""What a repository offers besides its main branch, and that one header is enough for all of it."""

import json
from collections.abc import Iterator, Sequence

import pytest

from app.core.errors import BadRequest, NotFound
from app.hub.repositories.offers import facts_of, read_offer, variant_label
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gguf_files import TinyLlama

CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"]}).encode()
MODEL = {"model.safetensors": b"w" * 100, "config.json": CONFIG}
README = {"README.md": b"#"}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        yield served_hub


RATES = [
    ("4.0bpw", "4.0bpw"),
    ("4.65bpw-h6", "4.65bpw"),
    ("3.50bpw_H6", "3.5bpw"),
    ("6_5", "6.5bpw"),
    ("8", "8.0bpw"),
    ("6hb-4.0bpw", "4.0bpw"),
    ("SC_4.00bpw_H5_V6", "4.0bpw"),
    ("3.05bpw_h5_ng5", "3.05bpw"),
    ("3.00bpw_mul1", "3.0bpw"),
    ("3.00bpw-H5", "3.0bpw"),
    ("main", ""),
    ("v2", ""),
    ("fix-readme", ""),
]


@pytest.mark.parametrize(("branch", "quantization"), RATES)
def test_branches_named_after_a_bit_rate_are_variants(hub: FakeHub, branch: str, quantization: str) -> None:
    stored_repository = hub.add("org/Model-exl2", README)
    stored_repository.branches["2.0bpw"] = MODEL
    stored_repository.branches.setdefault(branch, MODEL)
    offer = read_offer(hub.url, "org/Model-exl2")
    branches = {variant.revision: variant for variant in offer.list_variants()}
    assert (branch in branches) is bool(quantization)
    if quantization:
        variant = branches[branch]
        assert (variant.quantization, variant.format) == (quantization, "exl2")
        assert offer.home_of(variant).commit == stored_repository.commit(branch)


@pytest.mark.parametrize(("preferred_names", "first"), [((), "4.00bpw"), (("SC_4.00bpw_H5",), "SC_4.00bpw_H5")])
def test_of_several_branches_of_a_rate_one_is_called_by_it(
    hub: FakeHub, preferred_names: Sequence[str], first: str
) -> None:
    stored_repository = hub.add("org/Model-exl3", README)
    stored_repository.branches |= dict.fromkeys(
        ("SC_4.00bpw_H5_V6", "SC_4.00bpw_H5", "3.50bpw", "4.00bpw", "6.00bpw"), MODEL
    )
    variants = read_offer(hub.url, "org/Model-exl3", preferred_names=preferred_names).list_variants()
    by_rate = {variant.quantization: variant.revision for variant in variants}
    assert (by_rate["4.0bpw"], by_rate["3.5bpw"], by_rate["6.0bpw"]) == (first, "3.50bpw", "6.00bpw")
    others = {"4.00bpw", "SC_4.00bpw_H5", "SC_4.00bpw_H5_V6"} - {first}
    assert others < by_rate.keys(), "the others are called by their branch"
    assert len(by_rate) == len(variants) == 5


def test_only_repositories_of_such_a_format_are_asked_for_branches(hub: FakeHub) -> None:
    stored_repository = hub.add("org/Plain", MODEL)
    stored_repository.branches["4.0bpw"] = MODEL
    assert read_offer(hub.url, "org/Plain").branches == []
    assert not [path for _, path, _ in hub.requests if path.endswith("/refs")]


def test_a_revision_that_is_named_is_all_there_is(hub: FakeHub) -> None:
    stored_repository = hub.add("org/Model-exl3", README)
    stored_repository.branches |= {"4.0bpw": MODEL, "5.0bpw": MODEL}
    offer = read_offer(hub.url, "org/Model-exl3", revision="5.0bpw")
    assert (offer.branches, offer.repository.commit) == ([], stored_repository.commit("5.0bpw"))
    assert len(offer.list_variants()) == 1


def test_a_branch_that_holds_nothing_is_not_offered(hub: FakeHub) -> None:
    stored_repository = hub.add("org/Model-exl3", README)
    stored_repository.branches |= {"4.0bpw": README, "5.0bpw": {"pytorch_model.bin": b"x"}}
    with pytest.raises(NotFound):
        read_offer(hub.url, "org/Model-exl3").list_variants()
    hub.add("org/Pickles-exl2", {"pytorch_model.bin": b"x"})
    with pytest.raises(BadRequest):
        read_offer(hub.url, "org/Pickles-exl2").list_variants()


def test_one_header_is_read_for_all_and_never_twice(hub: FakeHub) -> None:
    hub.add("org/small", {"s-Q4_K_M.gguf": TinyLlama().content(), "s-Q8_0.gguf": TinyLlama(layers=3).content()})
    offer, facts = facts_of(read_offer(hub.url, "org/small"), hub.url)
    assert set(facts) == {variant_label(variant) for variant in offer.list_variants()}
    assert len({variant.file_bytes for variant in facts.values()}) == 2
    count = len(hub.requests)
    again, same = facts_of(offer, hub.url)
    assert (again, same, len(hub.requests)) == (offer, facts, count)
