"""As much of PyTorch as our ExLlama worker touches: small tensors as nested lists, and a card's name."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

long, uint8, float32 = "int64", "uint8", "float32"
version = "fake"


class Tensor:
    """A number, or rows of tensors. Indexing copies, as nothing here writes through a view but `t[:n] = x`."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def tolist(self) -> Any:
        return _copy_nested(self.data)

    def item(self) -> Any:
        data = self.data
        while isinstance(data, list):
            (data,) = data
        return data

    def view(self, *_shape: int) -> "Tensor":
        return Tensor([[_copy_nested(self.data)]])

    def masked_fill(self, mask: "Tensor", value: float) -> "Tensor":
        assert len(mask) == len(self), "a mask has the shape of what it hides"
        return Tensor([value if hides else element for element, hides in zip(self.data, mask.data, strict=True)])

    def __getitem__(self, at: Any) -> "Tensor":
        return Tensor(self.data[at])

    def __setitem__(self, at: slice, new: "Tensor") -> None:
        assert len(self.data[at]) == len(new)
        self.data[at] = new.data

    def __iter__(self) -> Iterator["Tensor"]:
        return (Tensor(element) for element in self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __float__(self) -> float:
        number: float = self.item()
        return number

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]  # as PyTorch has it
        return Tensor([element == other for element in self.data])

    __hash__ = object.__hash__

    def to(self, _kind: str) -> "Tensor":
        return Tensor(_copy_nested(self.data))


class TopK(NamedTuple):
    values: Tensor
    indices: Tensor


def _copy_nested(data: Any) -> Any:
    return [_copy_nested(element) for element in data] if isinstance(data, list) else data


def tensor(rows: Sequence[Sequence[int]], dtype: object = None) -> Tensor:
    return Tensor([list(row) for row in rows])


def frombuffer(buffer: bytearray, *, dtype: str) -> Tensor:
    assert isinstance(buffer, bytearray), "PyTorch warns of what cannot be written"
    assert dtype == uint8
    return Tensor(list(buffer))


def full_like(other: Tensor, value: float) -> Tensor:
    return Tensor([value] * len(other))


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(score - max(row)) for score in row]
    return [score / sum(powers) for score in powers]


def log_softmax(rows: Tensor, dim: int) -> Tensor:
    assert dim == -1
    return Tensor([[math.log(element) if element else -math.inf for element in softmax(row)] for row in rows.data])


def topk(rows: Tensor, k: int, dim: int) -> TopK:
    assert dim == -1
    best = [sorted(range(len(row)), key=lambda at, row=row: -row[at])[:k] for row in rows.data]
    values = [[row[at] for at in ats] for row, ats in zip(rows.data, best, strict=True)]
    return TopK(Tensor(values), Tensor(best))


class cuda:
    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def mem_get_info(_card: int) -> tuple[int, int]:
        return 20 << 30, 24 << 30

    @staticmethod
    def memory_allocated(_card: int) -> int:
        return 1 << 30

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def get_device_capability(_index: int) -> tuple[int, int]:
        return 8, 6

    @staticmethod
    def get_device_name(_index: int) -> str:
        return "Stand-in RTX"
