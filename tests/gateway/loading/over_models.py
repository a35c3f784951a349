"""A gateway's services over models of a test's own, with the engines it names."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.config.paths import Paths
from app.gateway.advising.model_facts import FactsReader
from app.gateway.services import Services
from app.hub.library.library import Library
from engines.api import EngineAdapter
from tests.gguf_files import TinyLlama


def over(
    models: Path, services: Services, paths: Paths, *, catalogue: object, adapters: Mapping[str, EngineAdapter]
) -> Services:
    """Return the services with the models of that folder, and a Guide that is tiny."""
    library = Library(lambda: [models], paths.data / "models.json", TinyLlama().write(paths.data / "guide.gguf"))
    parts: dict[str, Any] = {
        "library": library,
        "facts": FactsReader(library),
        "catalogue": catalogue,
        "adapters": adapters,
    }
    return dataclasses.replace(services, **parts)
