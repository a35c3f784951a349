"""Small libraries in place of NVIDIA's, so that PyTorch's CUDA build loads on a computer without a card.

The package index has PyTorch for CUDA alone, which wants 2.5 GB of NVIDIA's libraries before it says that there is no
card. A stand-in has the names and versions of symbols that PyTorch's own files ask for, and nothing behind them: every
call fails with an error code. It takes gcc and binutils, and comes to a megabyte.
"""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

_NVIDIAS = re.compile(r"NEEDED\s+(lib(?:cu|nv|nccl)\S+)")
_VERSION_OF = re.compile(r"^\s+(?:required from (?P<library>\S+):|0x\w+ 0x\w+ \d+ (?P<version>\S+))", re.MULTILINE)
_PLAIN_NAMES = {
    "cuFile": "libcufile.so.0",
    "cusparseLt": "libcusparseLt.so.0",
    "nccl": "libnccl.so.2",
    "curand": "libcurand.so.10",
    "nvshmem": "libnvshmem_host.so.3",
}
"""Whose symbols have no version: by how their names begin."""
_COLUMNS = 8
"""Of readelf's table of symbols."""
_FAILED = 999
"""CUDA's number for an unknown error."""

Symbols = dict[str, dict[str, set[str]]]
"""Library -> version -> names of symbols."""


def make_stand_ins(folder: Path, *, real_libraries: frozenset[str]) -> list[str]:
    """Put a stand-in beside PyTorch's libraries in `folder` for each of NVIDIA's they need, but `real_libraries`."""
    symbols: Symbols = defaultdict(lambda: defaultdict(set))
    for library in sorted(folder.glob("lib*.so")):
        _collect_symbols(library, symbols, real_libraries)
    for name, by_version in symbols.items():
        _compile_library(folder, name, by_version)
    return sorted(symbols)


def _collect_symbols(library: Path, symbols: Symbols, real_libraries: frozenset[str]) -> None:
    header = _output_of("objdump", "-p", str(library))
    needed_libraries = {name for name in _NVIDIAS.findall(header) if name not in real_libraries}
    for name in needed_libraries:
        symbols[name]  # some are needed without a symbol
    owners = _owners_of_versions(header, needed_libraries)
    for line in _output_of("readelf", "-W", "--dyn-syms", str(library)).splitlines():
        fields = line.split()
        if "UND" not in fields or "GLOBAL" not in fields or len(fields) < _COLUMNS:
            continue
        name, _, version = fields[7].partition("@")
        version = version.strip("@")
        owner = owners.get(version, "") if version else _plain_owner(name)
        if owner in needed_libraries:
            symbols[owner][version].add(name)


def _owners_of_versions(header: str, needed_libraries: set[str]) -> dict[str, str]:
    owners, library = {}, ""
    for match in _VERSION_OF.finditer(header.partition("Version References:")[2]):
        library = match["library"] or library
        if match["version"] and library in needed_libraries:
            owners[match["version"]] = library
    return owners


def _plain_owner(name: str) -> str:
    return next((library for start, library in _PLAIN_NAMES.items() if name.startswith(start)), "")


def _compile_library(folder: Path, name: str, by_version: dict[str, set[str]]) -> None:
    names = sorted({symbol for symbols in by_version.values() for symbol in symbols} | {"stand_in"})
    source, versions = folder / "stand_in.c", folder / "stand_in.map"
    source.write_text("".join(f"int {symbol}(void){{return {_FAILED};}}\n" for symbol in names))
    versions.write_text(
        "".join(f"{version} {{ global: {'; '.join(sorted(s))}; }};\n" for version, s in by_version.items() if version)
    )
    script = [f"-Wl,--version-script={versions}"] if versions.read_text() else []
    flags = ["-O1", "-shared", "-nostdlib", "-fPIC", "-w", f"-Wl,-soname,{name}", *script]
    subprocess.run(["/usr/bin/env", "gcc", *flags, "-o", str(folder / name), str(source)], check=True)
    source.unlink()
    versions.unlink()


def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
