"""What a GGUF header is made of, once read: metadata values and the tensor table; and the refusal of a damaged one."""

from math import prod

import msgspec

from app.core.errors import BadRequest
from app.hub.gguf.tables import TYPE_SIZES

Value = str | int | float | bool | list[int] | list[float] | list[bool] | list[str]
"""One metadata value. Vocabularies and other long lists are left out."""

MAX_NUMBER = (1 << 53) - 1
"""The largest whole number JSON readers agree on; no model, file or offset comes near."""


class TensorInfo(msgspec.Struct, frozen=True, gc=False):  # numbers and a name: nothing that could hold itself
    """One entry of a tensor table: its name, its shape (innermost first) and its GGML type id."""

    name: str
    shape: tuple[int, ...]
    type: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of its data, without padding. Raises BadRequest (model_unsupported) for an unknown type."""
        return bytes_of(self.elements, self.type)


def bytes_of(elements: int, type_id: int) -> int:
    """Return the bytes of so many numbers. Raises BadRequest (model_unsupported) for an unknown type."""
    try:
        block, size = TYPE_SIZES[type_id]
    except KeyError:
        raise BadRequest(
            f"The model uses a number format ({type_id}) that this version of Roundhouse does not know.",
            hint="Look for another upload of the model, or for a newer Roundhouse.",
            code="model_unsupported",
        ) from None
    return -(-elements // block) * size


def corrupt_error(what: str) -> BadRequest:
    """Return the refusal of a file that contradicts itself. `what` completes the sentence."""
    return BadRequest(
        f"The model file is damaged or incomplete: {what}.",
        hint="Download it again; an interrupted download is the usual cause.",
        code="model_corrupt",
    )
