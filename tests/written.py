"""What programs under test have written: every file below a folder, while they go on writing."""

from pathlib import Path


def contents_below(folder: Path) -> dict[Path, bytes]:
    """Return every file with its bytes. One that goes meanwhile is left out: files are replaced by way of another."""
    contents: dict[Path, bytes] = {}
    for file in folder.rglob("*"):
        try:
            if file.is_file():
                contents[file] = file.read_bytes()
        except FileNotFoundError:
            continue
    return contents
