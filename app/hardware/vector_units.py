"""How wide the vector units of a PC's processor are, where they take AVX's 256 bits in two halves.

AMD's did until Zen 2: its Software Optimization Guides for families 15h (47414), 16h (52128) and 17h (55723) describe
units of 128 bits, the one for "Family 17h Models 30h and Greater" (56305) such of 256. Hygon's family 18h is a Zen.
"""

from app.core.machine import Fact
from app.hardware.facts import derived_fact, unknown_fact

_AMD, _HYGON = "AuthenticAMD", "HygonGenuine"
_BULLDOZER, _JAGUAR, _ZEN, _DHYANA = 0x15, 0x16, 0x17, 0x18
_FIRST_WIDE_MODEL = 0x30
"""Of family 17h: Zen 2. Below are Zen and Zen+ (01h, 08h, 11h, 18h, 20h)."""
_HALF_BITS = 128
_NOTE = "Operations of 256 bits are done in two halves."


def vector_width(vendor: str, family: int | None, model: int | None, *, source: str) -> Fact[int]:
    """Return the bits that are taken at once; unknown for a processor that is not known to split."""
    is_split = family is not None and model is not None and _splits_vectors(vendor, family, model)
    if not is_split:
        return unknown_fact(source, "Nothing is said of narrower units.", unit="bit")
    return derived_fact(_HALF_BITS, source, unit="bit", note=_NOTE)


def _splits_vectors(vendor: str, family: int, model: int) -> bool:
    if vendor == _HYGON:
        return family == _DHYANA
    if vendor != _AMD:
        return False
    return family in {_BULLDOZER, _JAGUAR} or (family == _ZEN and model < _FIRST_WIDE_MODEL)
