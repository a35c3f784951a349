"""Lists of the catalogue outlive a service, as long as what they rest on is the same."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from app.core.engines import EngineInfo
from app.core.hub import HubCard, HubPick, HubUse
from app.core.machine import Confidence, Fact, Machine
from app.gateway.advising.advice import ObservedSpeeds
from app.gateway.hub.listing_cache import ListingTerms, keep_picks
from app.gateway.hub.repositories import FitContext
from app.hardware.description import machine_from
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.catalogue import CatalogueContent
from app.hub.repositories.catalogue_entry import CatalogueEntry
from tests.unit.advisor.engines import engines_on

MACHINE = machine_from(b'{"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 3090"]}')
CONTENT = CatalogueContent(
    version=2, issued="2026-11-26", models=[CatalogueEntry(title="A", family="A", names=["a"], base="o/a")]
)
TERMS = ListingTerms(
    "ranked", HubUse.CHAT, CONTENT, FitContext(MACHINE, [], ObservedSpeeds(calibrations=[]), engines_on(MACHINE)), 10
)
CARD = HubCard(base="o/a", title="A", repositories=[])
PICK = HubPick(name="A", pull="a", repository="o/a", use=HubUse.CHAT, card=CARD, quality=1)


class Judge:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> list[HubPick]:
        self.count += 1
        return [PICK]


def on(machine: Machine) -> ListingTerms:
    ground: FitContext = TERMS.ground._replace(machine=machine)
    return ListingTerms("ranked", HubUse.CHAT, CONTENT, ground, 10)


def with_free(share: float) -> Machine:
    pools = [
        msgspec.structs.replace(
            pool, free=msgspec.structs.replace(pool.free, value=round((pool.physical.value or 0) * share))
        )
        for pool in MACHINE.pools
    ]
    return msgspec.structs.replace(MACHINE, pools=pools, probed_at=share)


def with_measured_memory(gb_s: float) -> Machine:
    fact = Fact(value=gb_s, source="measured", confidence=Confidence.MEASURED)
    return msgspec.structs.replace(MACHINE, memory=msgspec.structs.replace(MACHINE.memory, bandwidth_gb_s=fact))


def judge_times(folder: Path, *terms: ListingTerms) -> int:
    """Return how often services, each begun anew on one folder, had to judge."""
    judge = Judge()
    for each in terms:
        assert keep_picks(HubMemory(folder / "hub", folder / "token"), each, judge) == [PICK]
    return judge.count


def test_a_fresh_service_has_the_list_of_the_last(tmp_path: Path) -> None:
    assert judge_times(tmp_path, TERMS, TERMS, TERMS) == 1


def test_what_moves_all_the_time_makes_no_other_list(tmp_path: Path) -> None:
    assert judge_times(tmp_path / "free", on(with_free(0.50)), on(with_free(0.51))) == 1
    assert judge_times(tmp_path / "speed", on(with_measured_memory(40.0)), on(with_measured_memory(29.0))) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda: TERMS._replace(least_speed=20),
        lambda: TERMS._replace(use=HubUse.CODING),
        lambda: TERMS._replace(kind="rest"),
        lambda: TERMS._replace(content=msgspec.structs.replace(CONTENT, models=[])),
        lambda: TERMS._replace(
            ground=TERMS.ground._replace(
                engines=[EngineInfo(id="e", name="E", formats=["gguf"], installed=True, licence="", homepage="")]
            )
        ),
        lambda: on(with_free(0.1)),
        lambda: on(machine_from(b'{"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 32, "gpus": ["RTX 3090"]}')),
    ],
)
def test_whatever_a_list_rests_on_makes_another(tmp_path: Path, change: Callable[[], ListingTerms]) -> None:
    assert judge_times(tmp_path, TERMS, change()) == 2


def test_a_damaged_file_is_judged_anew(tmp_path: Path) -> None:
    assert judge_times(tmp_path, TERMS) == 1
    for file in (tmp_path / "hub" / "picks").iterdir():
        file.write_bytes(b"{")
    assert judge_times(tmp_path, TERMS) == 1
