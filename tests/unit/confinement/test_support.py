"""What is said of each kind of kernel: no more is promised than it holds."""

import pytest

from app.confinement.support import KernelOffer, engine_confinement, report_confinement
from engines.registry import ADAPTERS

NEWEST = KernelOffer(landlock=7, has_filter=True, has_namespaces=True)
ALL = {"files", "network", "programs", "processes"}


@pytest.mark.parametrize(
    ("offer", "is_confined", "expected_parts"),
    [
        (NEWEST, True, ALL),
        (KernelOffer(landlock=6, has_filter=True, has_namespaces=True), True, ALL),
        (KernelOffer(landlock=4, has_filter=True, has_namespaces=True), True, ALL - {"programs"}),
        (KernelOffer(landlock=2, has_filter=True, has_namespaces=True), True, {"network", "processes"}),
        (KernelOffer(landlock=7, has_filter=True), True, ALL),
        (KernelOffer(landlock=7, has_namespaces=True), True, ALL - {"network"}),
        (KernelOffer(landlock=7, has_filter=True, is_superuser=True), True, ALL - {"processes"}),
        (KernelOffer(has_filter=True, has_namespaces=True), False, {"network", "processes"}),
        (None, False, set()),
    ],
)
def test_a_kernel_holds_what_it_can(offer: KernelOffer | None, is_confined: bool, expected_parts: set[str]) -> None:  # noqa: FBT001 -- a column of the table
    report = report_confinement(offer, is_wanted=True, free_engines=[])
    assert report.is_confined is is_confined
    assert {part.name for part in report.parts if part.is_held} == expected_parts
    assert report.sentence.startswith("Engines are confined." if is_confined else "Engines ")


def test_where_it_is_off_the_setting_is_named_and_what_it_means() -> None:
    report = report_confinement(NEWEST, is_wanted=False, free_engines=[])
    assert not report.is_confined
    assert "may do all that you may" in report.sentence
    assert "engines.confine" in report.sentence


def test_engines_that_a_person_excepted_are_named() -> None:
    report = report_confinement(NEWEST, is_wanted=True, free_engines=["vllm"])
    assert report.is_confined
    assert report.sentence.endswith("Not confined, as set: vllm.")


@pytest.mark.parametrize(
    ("engine", "offer", "free", "is_confined", "word"),
    [
        ("llama.cpp", NEWEST, [], True, "connects to nothing"),
        ("vllm", NEWEST, [], True, "anything by UDP"),
        ("vllm", NEWEST, ["vllm"], False, "engines.unconfined"),
        ("tgi", NEWEST, [], False, "container"),
        ("llama.cpp", None, [], False, "on Linux only"),
        ("llama.cpp", KernelOffer(), [], False, "Linux 5.13"),
    ],
)
def test_each_engine_says_how_it_is_held(
    engine: str,
    offer: KernelOffer | None,
    free: list[str],
    is_confined: bool,  # noqa: FBT001 -- a column of the table
    word: str,
) -> None:
    state = engine_confinement(ADAPTERS[engine].descriptor, offer, is_wanted=True, free_engines=free)
    assert state.is_confined is is_confined
    assert word in state.sentence
