"""Attaching an endpoint that somebody else runs: what is asked for. What comes of it are models (`ModelInfo`)."""

from typing import Annotated

import msgspec

from app.core.capabilities import Capability


class AttachEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put the models of an OpenAI-compatible endpoint behind this one.

    `models` are the endpoint's own names, all of them if empty; `name` is what one is called here, and the first part
    of the names of several. `key` is sent to the endpoint as a Bearer token, kept in a file only its owner can read,
    and told to nobody.
    """

    url: str
    name: str = ""
    key: str = ""
    models: list[str] = []
    can: list[Capability] | None = None
    """What they can do, by whoever attaches them: it counts before what the endpoint says."""
    context: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Tokens they take, likewise."""

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"AttachEndpoint({self.url!r}, name={self.name!r}, models={self.models!r})"


class CorrectAttached(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say of an attached model what it can do and how much it takes; the endpoint is asked anew for the rest.

    What is left out stays as it is; null takes back what was said, so that the endpoint's word counts again.
    """

    can: list[Capability] | msgspec.UnsetType | None = msgspec.UNSET
    context: Annotated[int, msgspec.Meta(ge=1)] | msgspec.UnsetType | None = msgspec.UNSET
