"""A server that plays GitHub's release API and its downloads, on loopback; it can be told to cheat."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

REPOSITORY = "ggml-org/llama.cpp"


class ReleaseServer:
    """`add(tag, {asset: content})` publishes a release. `downloads` counts what was fetched."""

    def __init__(self) -> None:
        self.url = ""
        self.releases: list[dict[str, object]] = []
        self.files: dict[str, bytes] = {}
        self.downloads: list[str] = []
        self.status = 200
        self.cut_after: int | None = None
        """Break the connection after so many bytes of a download."""
        self.redirect = ""

    def add(
        self,
        tag: str,
        assets: dict[str, bytes],
        *,
        prerelease: bool = True,
        digests: dict[str, str | None] | None = None,
    ) -> None:
        entries = []
        for name, content in assets.items():
            self.files[f"{tag}/{name}"] = content
            digest = (digests or {}).get(name, "sha256:" + hashlib.sha256(content).hexdigest())
            entries.append(
                {
                    "name": name,
                    "size": len(content),
                    "digest": digest,
                    "browser_download_url": f"{self.url}/download/{tag}/{name}",
                }
            )
        self.releases.insert(
            0, {"tag_name": tag, "prerelease": prerelease, "draft": False, "name": tag, "assets": entries}
        )

    async def _api(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response({"message": "no"}, status=self.status)
        tag = request.match_info.get("tag")
        matching_releases = [release for release in self.releases if tag in {None, release["tag_name"]}]
        if tag is None:
            return web.json_response(matching_releases)
        return (
            web.json_response(matching_releases[0])
            if matching_releases
            else web.json_response({"message": "Not Found"}, status=404)
        )

    async def _download(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.downloads.append(name)
        if self.redirect:
            raise web.HTTPFound(self.redirect)
        content = self.files[name]
        reply = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await reply.prepare(request)
        await reply.write(content[: self.cut_after])
        if self.cut_after is not None and request.transport is not None:
            request.transport.close()
        return reply

    @asynccontextmanager
    async def serve_releases(self) -> AsyncIterator["ReleaseServer"]:
        app = web.Application()
        app.router.add_get(f"/repos/{REPOSITORY}/releases", self._api)
        app.router.add_get(f"/repos/{REPOSITORY}/releases/tags/{{tag}}", self._api)
        app.router.add_get("/download/{name:.+}", self._download)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
