"""Files for a cluster, written into a folder that a person chose: all or none, and none in place of another unasked."""

from pathlib import Path
from tempfile import TemporaryDirectory

from app.core.deployments import DeploymentFile
from app.core.errors import Conflict, StorageFault

EXISTS = "file_exists"
"""The code of the error for files that are there already."""


def write_files(folder: Path, files: list[DeploymentFile], *, force: bool) -> None:
    """Write all files or none, also where the disk fills. Raises Conflict where one is there already, StorageFault."""
    paths = [folder / file.name for file in files]
    existing_paths = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if existing_paths and not force:
        raise Conflict(
            f"Already there: {', '.join(existing_paths)}.",
            hint="Choose another folder, or overwrite with --force.",
            code=EXISTS,
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".roundhouse-", dir=folder) as drafts:
            for file in files:
                Path(drafts, file.name).write_text(file.text, encoding="utf-8", newline="\n")
            for path in paths:
                Path(drafts, path.name).replace(path)
    except OSError as error:
        raise StorageFault(f"{folder} cannot be written to: {error}") from None
