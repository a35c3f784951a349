"""Secrets where the system keeps them: its keyring. A refusal is no error here, only no place. Blocks; use a thread.

A keyring may ask a person to unlock it, so it is opened only by those who put something into it.
"""

import contextlib
import logging

log = logging.getLogger(__name__)

SERVICE = "roundhouse"


class SecretStoreError(Exception):
    """There is no keyring, or it is locked. The message says which, by the kind of the error."""


def store_secret(name: str, secret: str) -> bool:
    """Put a secret into the system's keyring, and look whether it is there: some take everything and keep nothing."""
    import keyring  # noqa: PLC0415 -- finds its backends when imported, which takes a while
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    try:
        keyring.set_password(SERVICE, name, secret)
        return keyring.get_password(SERVICE, name) == secret
    except (KeyringError, RuntimeError, OSError) as error:
        log.info("The keyring refused a secret (%s).", type(error).__name__)
        return False


def read_secret(name: str) -> str:
    """Return a secret; empty if there is none of that name. Raises SecretStoreError."""
    import keyring  # noqa: PLC0415 -- as above
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    try:
        return keyring.get_password(SERVICE, name) or ""
    except (KeyringError, RuntimeError, OSError) as error:
        raise SecretStoreError(type(error).__name__) from error


def delete_secret(name: str) -> None:
    """Take a secret out of the keyring; one that is not there is no error."""
    import keyring  # noqa: PLC0415 -- as above
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    with contextlib.suppress(KeyringError, RuntimeError, OSError):
        keyring.delete_password(SERVICE, name)


def has_secret(name: str) -> bool:
    """Tell whether the keyring has, or while it is locked may have, a secret of that name."""
    try:
        return bool(read_secret(name))
    except SecretStoreError as error:
        return str(error) != "NoKeyringError"
