"""What the frozen application is made of: a CycloneDX bill of materials, and every licence's text.

https://cyclonedx.org/docs/1.6/json/
"""

import json
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

_LICENCE_NAMES = ("licen", "copying", "notice", "authors")
BUILD_ONLY = frozenset({"pyinstaller", "pyinstaller-hooks-contrib", "altgraph", "setuptools", "pip", "roundhouse-ai"})


def packages(site: Path) -> list[metadata.Distribution]:
    """Return what an environment holds beside us and what only builds, by name."""
    found = {str(one.metadata["Name"]).lower(): one for one in metadata.distributions(path=[str(site)])}
    return [one for name, one in sorted(found.items()) if name not in BUILD_ONLY]


def write_bill(target: Path, found: list[metadata.Distribution], *, version: str) -> None:
    """Write the bill of materials. The same contents make the same file."""
    components = [_component(one) for one in found]
    names = ",".join(f"{one['name']}@{one['version']}" for one in components)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'roundhouse@{version}:{names}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "roundhouse",
                "name": "Roundhouse",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "roundhouse", "dependsOn": [one["bom-ref"] for one in components]}],
    }
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def copy_licences(target: Path, found: list[metadata.Distribution]) -> list[str]:
    """Put each package's licence texts into a folder of its name; return the packages that bring none."""
    without: list[str] = []
    for one in found:
        texts = [path for path in _licence_files(one) if path.is_file()]
        folder = target / str(one.metadata["Name"])
        folder.mkdir(parents=True, exist_ok=True)
        for path in texts:
            shutil.copyfile(path, folder / path.name)
        if not texts:
            without.append(str(one.metadata["Name"]))
            (folder / "LICENSE").write_text(f"{_licence(one)}\n", encoding="utf-8")
    return without


def _component(one: metadata.Distribution) -> dict[str, object]:
    name, version = str(one.metadata["Name"]), one.version
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "licenses": [{"license": {"name": _licence(one)}}],
    }


def _licence(one: metadata.Distribution) -> str:
    """Return what the package says of its licence: the expression, a short text, or its classifiers."""
    said = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
    if said and "\n" not in said.strip():
        return str(said).strip()
    classified = [line.rpartition(" :: ")[2] for line in one.metadata.get_all("Classifier") or [] if "License" in line]
    return ", ".join(classified) or "unknown"


def _licence_files(one: metadata.Distribution) -> Iterator[Path]:
    for file in one.files or []:
        if file.name.lower().startswith(_LICENCE_NAMES) and ".dist-info" in str(file):
            yield Path(str(one.locate_file(file)))
