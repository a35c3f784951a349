"""Which archives of a GitHub release a variant is made of, found by parsing their names and never by listing them.

llama.cpp publishes `vX.Y.Z` (stable, no binaries, one asset naming the nightly tag) and `bNNNNN` (every binary, marked
pre-release); names of backends and their versions change every few months.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.core.errors import EnvironmentFault, quote_value
from app.engine_store.fetching import NOT_FOUND, ReleaseFetcher
from app.engine_store.host import version_numbers
from app.engine_store.recipe import Channel, EngineVariant, ReleaseSource

T = TypeVar("T")

API = "https://api.github.com"
_DIGEST = "sha256:"
_MENTIONED = 5
"""Releases that are named where somebody asked for one that is not there."""
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a release, as GitHub's API has it."""

    name: str
    url: str = msgspec.field(name="browser_download_url")
    size: int = 0
    digest: str | None = None

    @property
    def sha256(self) -> str:
        """Its hash as the release server states it; empty when it does not."""
        return (self.digest or "").removeprefix(_DIGEST) if (self.digest or "").startswith(_DIGEST) else ""


class _GitHubRelease(msgspec.Struct, frozen=True, kw_only=True):
    tag: str = msgspec.field(name="tag_name")
    assets: list[Asset] = []
    is_draft: bool = msgspec.field(name="draft", default=False)


class AssetSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The archives of one version. `version` is the stable name where there is one, `tag` what carries them."""

    version: str
    tag: str
    assets: tuple[Asset, ...]

    @property
    def size_bytes(self) -> int:
        """What there is to fetch."""
        return sum(asset.size for asset in self.assets)


class Releases:
    """One repository's releases, behind `api`: GitHub or a mirror that speaks the same."""

    def __init__(self, fetcher: ReleaseFetcher, release: ReleaseSource, api: str = API) -> None:
        self._fetcher = fetcher
        self._release = release
        self._base = f"{api.rstrip('/')}/repos/{release.repository}/releases"

    async def choose_assets(self, variant: EngineVariant, channel: Channel, version: str = "") -> AssetSelection:
        """Return what to fetch for a variant: `version`, else what the channel has. Raises EnvironmentFault."""
        release, name = await self._find_release(version or (variant.version if channel is Channel.STABLE else ""))
        assets = pick_assets(self._release, variant, release.assets)
        return AssetSelection(
            version=name, tag=release.tag, assets=tuple(_pin_digest(asset, variant.pins) for asset in assets)
        )

    async def list_assets(self, version: str) -> Sequence[Asset]:
        """Return what a version's release holds; nothing where there is none. Raises EnvironmentFault."""
        try:
            return (await self._get_release(f"/tags/v{version}")).assets
        except EnvironmentFault as fault:
            if fault.code != NOT_FOUND:
                raise
            return ()

    async def _find_release(self, version: str) -> tuple[_GitHubRelease, str]:
        if not version:
            return await self._newest_release()
        if not _TAG.fullmatch(version):
            raise EnvironmentFault(f"{quote_value(version)} is not a version of this engine.", code="no_release")
        tag = f"v{version}" if version[0].isdigit() else version
        try:
            release = await self._get_release(f"/tags/{tag}")
        except EnvironmentFault as fault:
            if fault.code != NOT_FOUND:
                raise
            newest = ", ".join(candidate.tag for candidate in (await self._list_releases())[:_MENTIONED])
            hint = f"The newest are {newest}." if newest else ""
            raise EnvironmentFault(
                f"There is no release {tag} of this engine.", hint=hint, code="no_release"
            ) from fault
        return await self._follow_pointer(release), version

    async def _list_releases(self) -> list[_GitHubRelease]:
        return _decode_json(await self._fetcher.fetch_text(f"{self._base}?per_page=20"), list[_GitHubRelease])

    async def _newest_release(self) -> tuple[_GitHubRelease, str]:
        """Return the newest release that carries archives, a pre-release as a rule."""
        for release in await self._list_releases():
            if not release.is_draft and any(self._release.pattern.match(asset.name) for asset in release.assets):
                return release, release.tag
        raise EnvironmentFault("The newest releases have no archives.", hint="Try again later.", code="no_release")

    async def _follow_pointer(self, release: _GitHubRelease) -> _GitHubRelease:
        """Return the release whose tag the pointer names, if this one has a pointer."""
        pointer = next((asset for asset in release.assets if asset.name == self._release.pointer), None)
        if pointer is None:
            return release
        tag = (await self._fetcher.fetch_text(pointer.url)).decode("utf-8", "replace").strip()
        if not _TAG.fullmatch(tag):
            raise EnvironmentFault(f"{pointer.name} of {release.tag} does not name a release.", code="no_release")
        return await self._get_release(f"/tags/{tag}")

    async def _get_release(self, path: str) -> _GitHubRelease:
        return _decode_json(await self._fetcher.fetch_text(self._base + path), _GitHubRelease)


def _decode_json(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise EnvironmentFault(
            "The release server's answer is not in GitHub's format.", detail=str(error), code="no_release"
        ) from error


def pick_assets(release: ReleaseSource, variant: EngineVariant, assets: Iterable[Asset]) -> list[Asset]:
    """Return the variant's archive and its companions, the newest of several that fit. Raises EnvironmentFault."""
    parsed_assets = [
        (asset, match.groupdict("")) for asset in assets if (match := release.pattern.fullmatch(asset.name))
    ]
    chosen_assets: list[Asset] = []
    wanted_version = ""
    for pattern_groups in (variant.pick, *variant.companions):
        exact = {**pattern_groups, **({"ver": wanted_version} if wanted_version and "ver" in pattern_groups else {})}
        fitting_assets = [(asset, groups) for asset, groups in parsed_assets if _groups_fit(groups, exact)]
        if not fitting_assets:
            raise EnvironmentFault(
                f"This release has no archive for {variant.name}.",
                hint="Try another version, or the stable channel.",
                code="no_asset",
            )
        asset, groups = max(fitting_assets, key=lambda pair: version_numbers(pair[1].get("ver", "")))
        wanted_version = wanted_version or groups.get("ver", "")
        chosen_assets.append(asset)
    return chosen_assets


def _groups_fit(groups: Mapping[str, str], expected_groups: Mapping[str, str]) -> bool:
    """Tell whether a name's groups are as wished. Not mentioned is absent, but for tag, version and form."""
    free = {"tag", "ver", "ext"}
    for name, value in groups.items():
        expected_value = expected_groups.get(name)
        if name == "ver" and expected_value is not None:
            if value != expected_value and not value.startswith(f"{expected_value}."):
                return False
        elif expected_value is not None:
            if value != expected_value:
                return False
        elif value and name not in free:
            return False
    return True


def _pin_digest(asset: Asset, pins: Mapping[str, str]) -> Asset:
    """Return the asset with the hash we pinned, whatever the server says: a digest there is renewed with the file."""
    pin = pins.get(asset.name)
    return msgspec.structs.replace(asset, digest=_DIGEST + pin) if pin else asset
