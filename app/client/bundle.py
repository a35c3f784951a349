"""A bundle as the file that is passed on: a zip archive of texts."""

import io
import time
import zipfile
from pathlib import Path

from app.core.errors import EnvironmentFault
from app.core.report import Bundle


def zipped(bundle: Bundle) -> bytes:
    """Return the archive. Nothing in it says more than the texts do: no owner, and one time for all files."""
    made = io.BytesIO()
    at = time.gmtime(bundle.made_at)[:6]
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in bundle.files:
            info = zipfile.ZipInfo(file.name, date_time=at)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.text)
    return made.getvalue()


def save(bundle: Bundle, path: Path) -> None:
    """Write the archive. Raises EnvironmentFault when the disk will not have it."""
    try:
        path.write_bytes(zipped(bundle))
    except OSError as error:
        raise EnvironmentFault(f"The bundle cannot be written to {path}: {error.strerror}.") from error
