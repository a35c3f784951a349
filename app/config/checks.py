"""What is wrong with a setting's value beyond its kind: a sentence, or nothing. `table` names them."""

import base64
import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from app.core.api import SettingValue
from app.core.connections import is_forbidden
from app.core.errors import quote_value

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_MACHINE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST_MACHINE = 63
ED25519_KEY_BYTES = 32
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def address_only(value: SettingValue) -> str:
    """Refuse what is no address of a computer."""
    if value in LOOPBACK:
        return ""
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        quoted_value = quote_value(value)
        return (
            f"The address must be a numeric address of this computer, or 0.0.0.0 for all of them, not {quoted_value}."
        )
    return ""


def origins_only(value: SettingValue) -> str:
    """Refuse a wildcard: it would let every page a person opens use the endpoint."""
    origins = value if isinstance(value, list) else []
    odd = [origin for origin in origins if "*" in origin or "://" not in origin]
    return f"A web page is written like https://example.org; {quote_value(odd[0])} is not allowed." if odd else ""


def https_or_nothing(value: SettingValue) -> str:
    """Refuse a catalogue from where anybody on the way could change it."""
    if not value or str(value).startswith("https://") or urlsplit(str(value)).hostname in LOOPBACK:
        return ""
    return "A catalogue is downloaded over https only."


def key_or_nothing(value: SettingValue) -> str:
    """Refuse what is no public key."""
    try:
        is_key = len(base64.b64decode(str(value), validate=True)) == ED25519_KEY_BYTES
    except ValueError:
        is_key = False
    return "" if is_key or not value else "The key must be 32 bytes in base64."


def names_only(value: SettingValue) -> str:
    """Refuse addresses, ports and wildcards among host names."""
    names = value if isinstance(value, list) else []
    odd = [name for name in names if not _HOST_NAME.fullmatch(name)]
    return (
        f"A name is written like models.example.org, without a port; {quote_value(odd[0])} is not allowed."
        if odd
        else ""
    )


def machine_name_only(value: SettingValue) -> str:
    """Refuse what paired machines would not take for a name."""
    is_right = not value or (len(str(value)) <= _LONGEST_MACHINE and _MACHINE_NAME.fullmatch(str(value)))
    return "" if is_right else "A name has at most 63 letters, digits, dots, dashes and underscores."


def aliases_only(value: SettingValue) -> str:
    """Refuse what does not say which model a name stands for."""
    aliases = value if isinstance(value, list) else []
    odd = [alias for alias in aliases if not all(part.strip() for part in alias.rpartition("=")[::2])]
    return (
        f"A name and the model it stands for are written like claude-*=my-model, not {quote_value(odd[0])}."
        if odd
        else ""
    )


def whole_paths_only(value: SettingValue) -> str:
    """Refuse parts of paths: they would mean another folder for every folder the gateway happens to be started in."""
    folders = value if isinstance(value, list) else []
    partial = [folder for folder in folders if not Path(folder).is_absolute() and not folder.startswith("~")]
    return f"A model folder must be given by its full path, not {quote_value(partial[0])}." if partial else ""


def https_only(value: SettingValue) -> str:
    """Refuse what anybody on the way could change; this computer itself is no way."""
    where = urlsplit(str(value))
    if where.hostname and (where.scheme == "https" or (where.scheme == "http" and where.hostname in LOOPBACK)):
        return ""
    return f"The address must begin with https://, not {quote_value(value)}."


def collector_or_nothing(value: SettingValue) -> str:
    """Refuse what is no address of a collector, holds a secret, or must not be called."""
    if not value:
        return ""
    try:
        where = urlsplit(str(value))
        is_right = where.scheme in {"http", "https"} and bool(where.hostname) and where.port != 0
    except ValueError:  # brackets or a port that are none
        where, is_right = urlsplit(""), False
    if not is_right or any(character <= " " for character in str(value)):
        return f"The address of a collector is written like http://127.0.0.1:4318, not {quote_value(value)}."
    if where.username is not None or where.password is not None or where.query or where.fragment:
        return "The address of a collector has no user, password, `?` or `#`; secrets go into its headers."
    return "This is an address that is never contacted." if is_forbidden(where.hostname or "") else ""
