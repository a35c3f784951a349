"""The half of the stand-in that our guard takes hold of."""

from typing import Any


class Config:
    """As much of uvicorn's as is used."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def load(self) -> None:
        """Take the application as it is."""
        self.loaded_app = self.app
