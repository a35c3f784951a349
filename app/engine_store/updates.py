"""What an update would change, found without changing anything."""

import asyncio
import re

from app.core.engine_store import EngineUpdate
from app.engine_store.host import version_numbers
from app.engine_store.installer import Installer, InstallTask, lock_for, require_uv, version_in_lock
from app.engine_store.recipe import Channel, VariantKind

_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", re.MULTILINE)


async def update_for(installer: Installer, work: InstallTask, current: str) -> EngineUpdate:
    """Return what installing `work` would change for somebody who uses `current`. Raises EnvironmentFault."""
    variant, size = work.variant, work.variant.download_bytes
    changes: list[str] = []
    if variant.kind is VariantKind.ARCHIVE:
        to, size = await _archive_update(installer, work)
    elif work.options.channel is Channel.STABLE:
        to = variant.version
    else:
        lock = await lock_for(require_uv(installer.uv), work)
        committed = await asyncio.to_thread(work.recipe.lock_of(variant).read_text, encoding="utf-8")
        to, changes = version_in_lock(lock, variant.package), package_differences(committed, lock)
    is_newer = version_numbers(to) > version_numbers(current)
    return EngineUpdate(
        engine=work.recipe.engine,
        variant=variant.name,
        channel=work.options.channel.value,
        current=current,
        to=to if is_newer else "",
        download_bytes=size if is_newer else 0,
        changes=changes if is_newer else [],
    )


async def _archive_update(installer: Installer, work: InstallTask) -> tuple[str, int]:
    if work.options.channel is Channel.STABLE:
        return work.variant.version, work.variant.download_bytes
    chosen = await installer.choose_release(work)
    return chosen.version, chosen.size_bytes


def package_differences(before: str, after: str) -> list[str]:
    """Return the packages two locks have in different versions, as "numpy 2.4.6 -> 2.5.5"."""
    old, new = (dict(_PINNED.findall(lock)) for lock in (before, after))
    return [
        f"{name} {old.get(name, 'none')} -> {version}"
        for name, version in sorted(new.items())
        if old.get(name) != version
    ]
