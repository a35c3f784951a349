"""Releases as their owner would publish them, on a server of this machine: signed descriptions and files."""

import base64
import datetime as dt
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.core.updates import InstallationKind
from app.engine_store.host import this_host
from tests.range_server import Hub

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)
HOST = this_host({})


class Publisher:
    """Whoever owns the private key. `hub` serves what is published, below /updates."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.key, self.hub = Ed25519PrivateKey.generate(), hub
        self.keys_file = folder / "keys.txt"
        self.keys_file.write_text(f"# whom to trust\n{self.public_key}  # the usual one\n")

    @property
    def public_key(self) -> str:
        return base64.b64encode(self.key.public_key().public_bytes_raw()).decode()

    @property
    def url(self) -> str:
        return f"{self.hub.url}/updates"

    def publish(self, version: str, files: Mapping[str, bytes] = {}, **changes: object) -> bytes:
        """Serve a version with these files, the kind of each told by its name; `changes` are to the document."""
        content = json.dumps({**self.document(version, files), **changes}).encode()
        self.serve(content, base64.b64encode(self.key.sign(content)).decode(), channel=str(changes.get("channel", "")))
        self.hub.files.update({f"/updates/{name}": data for name, data in files.items()})
        return content

    def document(self, version: str, files: Mapping[str, bytes] = {}) -> dict[str, Any]:
        return {
            "purpose": "roundhouse-update",
            "format": 1,
            "channel": "stable",
            "version": version,
            "issued": NOW.isoformat(),
            "expires": (NOW + 30 * DAY).isoformat(),
            "notes": f"# {version}\n\n- It is **better**.\n",
            "files": [entry(name, data) for name, data in files.items()],
        }

    def serve(self, content: bytes, signatures: str, *, channel: str = "") -> None:
        self.hub.files[f"/updates/{channel or 'stable'}.json"] = content
        self.hub.files[f"/updates/{channel or 'stable'}.json.sig"] = signatures.encode()


def entry(name: str, data: bytes) -> dict[str, Any]:
    """Return what a description says of a file for this machine."""
    kind = next(kind for kind in InstallationKind if name.casefold().endswith(f".{kind}"))
    return {
        "kind": kind.value,
        "platform": HOST.platform,
        "architecture": HOST.architecture,
        "url": name,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def archive(version: str, program: str, *, noted_version: str = "", more: Mapping[str, bytes] = {}) -> bytes:
    """Return a .tar.xz as `make package` makes them, around a program that is a script."""
    note = json.dumps({"kind": "tar.xz", "version": noted_version or version}).encode()
    out = io.BytesIO()
    top = f"roundhouse-{version}-linux-x86_64"
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {"roundhouse": program.encode(), "installation.json": note, **more}.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return lzma.compress(out.getvalue(), preset=0)
