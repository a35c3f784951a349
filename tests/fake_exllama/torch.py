"""As much of PyTorch as our ExLlama worker touches: one row of numbers, and a card's name."""

from collections.abc import Sequence

long = "int64"
version = "fake"


class Tensor:
    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = [list(row) for row in rows]

    def tolist(self) -> list[list[int]]:
        return [list(row) for row in self.rows]


def tensor(rows: Sequence[Sequence[int]], dtype: object = None) -> Tensor:
    return Tensor(rows)


class cuda:
    @staticmethod
    def get_device_name(_index: int) -> str:
        return "Stand-in RTX"
