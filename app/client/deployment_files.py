"""Files for a cluster, written into a folder that a person chose: all or none, and none in place of another unasked."""

from pathlib import Path

from app.core.deployments import DeploymentFile
from app.core.errors import Conflict, StorageFault

EXISTS = "file_exists"
"""The code of the error for files that are there already."""


def write_files(folder: Path, files: list[DeploymentFile], *, force: bool) -> None:
    """Write all files or none. Raises Conflict where one is there already, and StorageFault."""
    paths = {folder / file.name: file.text for file in files}
    existing_paths = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if existing_paths and not force:
        raise Conflict(
            f"Already there: {', '.join(existing_paths)}.",
            hint="Choose another folder, or overwrite with --force.",
            code=EXISTS,
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("w" if force else "x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
    except OSError as error:
        raise StorageFault(f"{folder} cannot be written to: {error}") from None
