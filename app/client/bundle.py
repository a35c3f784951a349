"""A bundle as the file that is passed on: a zip archive of texts."""

import io
import time
import zipfile
from pathlib import Path

from app.core.errors import EnvironmentFault
from app.core.machine import DiagnosticBundle


def zip_bundle(bundle: DiagnosticBundle) -> bytes:
    """Return the archive. Nothing in it says more than the texts do: no owner, and one time for all files."""
    buffer = io.BytesIO()
    at = time.gmtime(bundle.made_at)[:6]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in bundle.files:
            info = zipfile.ZipInfo(file.name, date_time=at)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.text)
    return buffer.getvalue()


def save_bundle(bundle: DiagnosticBundle, path: Path) -> None:
    """Write the archive. Raises EnvironmentFault when the disk will not have it."""
    try:
        path.write_bytes(zip_bundle(bundle))
    except OSError as error:
        raise EnvironmentFault(f"The bundle cannot be written to {path}: {error.strerror}.") from error
