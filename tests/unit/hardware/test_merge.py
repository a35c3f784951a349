"""One Gpu per card: what makes two sightings one card, and what does not."""

from app.core.machine import Fact, Gpu
from app.hardware.assemble import merge_gpus
from app.hardware.facts import derived_fact, measured_fact, unknown_fact

GIB = 1 << 30


def gpu(identity: str, name: str = "Card", *, uuid: str = "", total: int | None = 8 * GIB, inside: bool = False) -> Gpu:
    memory: Fact[int] = unknown_fact("test", "not said") if total is None else measured_fact(total, "test")
    return Gpu(
        id=identity,
        vendor="amd",
        name=measured_fact(name, "test"),
        memory_total=memory,
        memory_free=unknown_fact("test", "not said"),
        driver=unknown_fact("test", "not said"),
        compute=unknown_fact("test", "not said"),
        integrated=measured_fact(inside, "test"),
        uuid=uuid,
        addressable={"vulkan": memory},
    )


def ids(*probe_lists: list[Gpu]) -> list[str]:
    return [card.id for card in merge_gpus(probe_lists)]


def test_one_address_is_one_card_whatever_its_name() -> None:
    assert ids([gpu("0000:01:00.0", "A")], [gpu("0000:01:00.0", "B")]) == ["0000:01:00.0"]


def test_two_addresses_are_two_cards_whatever_their_name() -> None:
    assert ids([gpu("0000:01:00.0")], [gpu("0000:02:00.0")]) == ["0000:01:00.0", "0000:02:00.0"]


def test_a_uuid_joins_however_it_is_written() -> None:
    nvml = gpu("0000:01:00.0", "A", uuid="GPU-8932f937-d72c-4106-c12f-20bd9faed9f6")
    vulkan = gpu("vulkan-x", "B", uuid="8932F937D72C4106C12F20BD9FAED9F6")
    assert ids([nvml], [vulkan]) == ["0000:01:00.0"]


def test_a_name_joins_only_where_each_side_has_it_once() -> None:
    assert ids([gpu("0000:01:00.0")], [gpu("vulkan-x")]) == ["0000:01:00.0"]
    assert len(ids([gpu("0000:01:00.0"), gpu("0000:02:00.0")], [gpu("vulkan-x")])) == 3
    assert len(ids([gpu("0000:01:00.0")], [gpu("vulkan-x"), gpu("vulkan-y")])) == 3


def test_graphics_in_the_processor_are_one_whatever_they_are_called() -> None:
    assert ids([gpu("soc", "Board", inside=True)], [gpu("vulkan-x", "Chip", inside=True)]) == ["soc"]
    assert len(ids([gpu("soc", "Board", inside=True)], [gpu("vulkan-x", "Chip")])) == 2


def test_the_first_to_see_a_card_counts_and_the_others_fill_in() -> None:
    first = gpu("0000:01:00.0", total=12 * GIB)
    second = gpu("0000:01:00.0", total=19 * GIB)
    (card,) = merge_gpus([[first], [second]])
    assert card.memory_total.value == 12 * GIB
    assert card.addressable["vulkan"].value == 12 * GIB
    assert "more than there is" in card.addressable["vulkan"].note
    (filled_gpu,) = merge_gpus([[gpu("0000:01:00.0", total=None)], [second]])
    assert filled_gpu.memory_total.value == 19 * GIB


def test_a_stand_in_for_a_name_gives_way() -> None:
    nameless = derived_fact("AMD GPU (0x744c)", "PCI device id")
    first = gpu("0000:01:00.0")
    (card,) = merge_gpus(
        [[Gpu(**{**{f: getattr(first, f) for f in Gpu.__struct_fields__}, "name": nameless})], [first]]
    )
    assert card.name.value == "Card"


def test_cards_come_before_graphics_in_the_processor() -> None:
    assert ids([gpu("0000:00:02.0", "A", inside=True), gpu("0000:01:00.0", "B")]) == ["0000:01:00.0", "0000:00:02.0"]
