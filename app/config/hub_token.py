"""The hub's token: of the environment, else the one that a person gave us, else Hugging Face's own programs'.

Blocks; call it from a thread.
"""

from pathlib import Path

from app.config.environment import environment_hub_token, hugging_face_token
from app.config.kept_secret import KeptSecret
from app.core.errors import BadRequest
from app.core.hub import TokenPlace

_LEAST, _MOST = 8, 512


class HubToken:
    """The token in force."""

    def __init__(self, file: Path) -> None:
        self._kept_secret = KeptSecret(file, "the hub's token")

    def read_token(self) -> str:
        """Return the token; empty without one."""
        return environment_hub_token() or self._kept_secret.read_secret() or hugging_face_token()

    def token_place(self) -> TokenPlace | None:
        """Return where the token in force is from; None without one."""
        if environment_hub_token():
            return TokenPlace.ENVIRONMENT
        if (place := self._kept_secret.secret_place()) is not None:
            return TokenPlace(place)
        return TokenPlace.HUGGING_FACE if hugging_face_token() else None

    def store_token(self, token: str) -> None:
        """Keep a token from now on. Raises BadRequest for what is none, StorageFault where it cannot be kept."""
        stripped_token = token.strip()
        if not (
            _LEAST <= len(stripped_token) <= _MOST
            and stripped_token.isascii()
            and stripped_token.isprintable()
            and " " not in stripped_token
        ):
            raise BadRequest("This is not a token.", hint="A token looks like hf_…", code="invalid_value")
        self._kept_secret.store_secret(stripped_token)

    def forget_token(self) -> None:
        """Forget the token that was kept."""
        self._kept_secret.forget_secret()
