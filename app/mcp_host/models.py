"""Import a protocol's models quicker: each is built when it is first used, and a session uses few of the hundreds.

Building all 280 of the Agent Client Protocol, and looking the documentation of their fields up in the source, took 0.6
of 1.4 s of a processor at each start of an agent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pydantic


@contextmanager
def defer_models() -> Iterator[None]:
    """Have the models that are imported meanwhile built at their first use, their fields without documentation."""
    make_config, inherited_config = pydantic.ConfigDict, pydantic.BaseModel.model_config

    def make_plain_config(**options: Any) -> pydantic.ConfigDict:  # noqa: ANN401 -- whatever pydantic takes
        return make_config(**{**options, "use_attribute_docstrings": False})

    pydantic.ConfigDict = make_plain_config  # type: ignore[assignment,misc]
    pydantic.BaseModel.model_config = make_config(defer_build=True)
    try:
        yield
    finally:
        pydantic.ConfigDict = make_config  # type: ignore[misc]
        pydantic.BaseModel.model_config = inherited_config
