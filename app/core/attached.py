"""Attaching an endpoint that somebody else runs: what is asked for. What comes of it are models (`ModelInfo`)."""

import msgspec


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

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"AttachEndpoint({self.url!r}, name={self.name!r}, models={self.models!r})"
