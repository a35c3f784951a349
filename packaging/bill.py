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
    by_name = {
        str(distribution.metadata["Name"]).lower(): distribution
        for distribution in metadata.distributions(path=[str(site)])
    }
    return [distribution for name, distribution in sorted(by_name.items()) if name not in BUILD_ONLY]


def write_bill(target: Path, by_name: list[metadata.Distribution], *, version: str) -> None:
    """Write the bill of materials. The same contents make the same file."""
    components = [_component(component) for component in by_name]
    names = ",".join(f"{component['name']}@{component['version']}" for component in components)
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
        "dependencies": [{"ref": "roundhouse", "dependsOn": [component["bom-ref"] for component in components]}],
    }
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def copy_licences(target: Path, by_name: list[metadata.Distribution]) -> list[str]:
    """Put each package's licence texts into a folder of its name; return the packages that bring none."""
    without: list[str] = []
    for package in by_name:
        texts = [path for path in _licence_files(package) if path.is_file()]
        folder = target / str(package.metadata["Name"])
        folder.mkdir(parents=True, exist_ok=True)
        for path in texts:
            shutil.copyfile(path, folder / path.name)
        if not texts:
            without.append(str(package.metadata["Name"]))
            (folder / "LICENSE").write_text(f"{_licence(package)}\n", encoding="utf-8")
    return without


def _component(package: metadata.Distribution) -> dict[str, object]:
    name, version = str(package.metadata["Name"]), package.version
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "licenses": [{"license": {"name": _licence(package)}}],
    }


def _licence(package: metadata.Distribution) -> str:
    """Return what the package says of its licence: the expression, a short text, or its classifiers."""
    licence = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    if licence and "\n" not in licence.strip():
        return str(licence).strip()
    classifiers = [
        line.rpartition(" :: ")[2] for line in package.metadata.get_all("Classifier") or [] if "License" in line
    ]
    return ", ".join(classifiers) or "unknown"


def _licence_files(package: metadata.Distribution) -> Iterator[Path]:
    for file in package.files or []:
        if file.name.lower().startswith(_LICENCE_NAMES) and ".dist-info" in str(file):
            yield Path(str(package.locate_file(file)))
