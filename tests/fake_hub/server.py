"""The fake hub over HTTP: descriptions, refs, trees, search, and files by way of redirects to a storage.

Routes and headers as https://huggingface.co/docs/hub/api and `huggingface_hub` 1.x use them.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.fake_hub import cas_routes
from tests.fake_hub.hub import FakeHub, StoredFile, StoredRepository, forget_hashes

_API = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+)(?:/(?P<what>revision|refs|tree)(?:/(?P<revision>[^/]+))?)?$")
_RESOLVE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)$")
_STORAGE = re.compile(r"/storage/(?P<etag>[0-9a-f]{40,64})/(?P<path>.+)$")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)$")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients leave in the middle; that is what they are tested for."""


@contextmanager
def serve_hub(hub: FakeHub, port: int = 0) -> Iterator[FakeHub]:
    """Serve, on a free port by itself, until the block ends; `hub.url` is the endpoint."""

    class Handler(_Handler):
        served_hub = hub

    server = _Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.cas.address = hub.cas.address or f"{hub.storage_url}/cas"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        Handler.served_hub = FakeHub()  # a class lives until the collector comes by, and the hub's files with it
        forget_hashes()


class _Handler(BaseHTTPRequestHandler):
    served_hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub, address = self.served_hub, urlsplit(self.path)
        path = unquote(address.path)
        hub.requests.append((self.command, path, self.headers.get("Range", "")))
        if path == "/health":
            self.reply(200, b"", {})
        elif path == "/api/models":
            self.list_models(parse_qs(address.query))
        elif api_match := _API.match(path):
            self.describe(api_match)
        elif storage_match := _STORAGE.match(path):
            hub.tokens_at_storage.append(self.headers.get("Authorization"))
            self.serve(storage_match["path"], _by_etag(hub, storage_match["etag"]))
        elif resolve_match := _RESOLVE.match(path):
            self.resolve(resolve_match)
        elif not cas_routes.answer_storage(self, hub.cas, path):
            self.refuse(404, "EntryNotFound", "Not found")

    do_HEAD = do_GET  # noqa: N815 -- the base class calls it so

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        cas_routes.take_upload(self, self.served_hub.cas, self.path, body)

    def list_models(self, query: dict[str, list[str]]) -> None:
        cursor = query.get("cursor", ["0"])[0]
        if not cursor.isdecimal():
            self.refuse(400, "BadCursor", "Invalid cursor")
            return
        page, next_link = _page(self.served_hub, query)
        link = {"Link": next_link} if next_link else {}
        self.reply(200, json.dumps(page).encode(), {"Content-Type": "application/json", **link})

    def describe(self, match: re.Match[str]) -> None:
        repository = self.served_hub.repositories.get(match["name"])
        if repository is None:
            self.refuse_absent()
            return
        if match["what"] == "refs":
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": repository.commit(name)}
                for name in repository.branches
            ]
            self.reply_json({"branches": branches, "converts": [], "tags": []})
            return
        branch = repository.branch_of(match["revision"] or "main")
        if branch is None:
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
        elif match["what"] == "tree":
            self.reply_json([_leaf(file) for file in repository.files(branch)])
        else:
            self.reply_json(_description(repository, branch))

    def resolve(self, match: re.Match[str]) -> None:
        repository = self.served_hub.repositories.get(match["name"])
        branch = repository.branch_of(match["revision"]) if repository else None
        content = repository.branches[branch].get(match["path"]) if repository and branch else None
        if repository is None:
            self.refuse_absent()
        elif branch is None or content is None:
            self.refuse(404, "EntryNotFound", "Entry not found")
        elif (
            repository.gated
            and (self.headers.get("Authorization") or "").removeprefix("Bearer ") not in repository.readers
        ):
            self.refuse_gated(repository)
        else:
            self.answer_with(repository, branch, StoredFile(match["path"], content))

    def refuse_absent(self) -> None:
        if self.served_hub.is_frank or self.headers.get("Authorization"):
            self.refuse(404, "RepoNotFound", "Repository not found")
        else:
            self.refuse(401, "RepoNotFound", "Invalid username or password.")

    def refuse_gated(self, repository: StoredRepository) -> None:
        status = 403 if self.headers.get("Authorization") else 401
        self.refuse(status, "GatedRepo", f"Access to model {repository.name} is restricted.")

    def answer_with(self, repository: StoredRepository, branch: str, file: StoredFile) -> None:
        commit = repository.commit(branch)
        common = {"X-Repo-Commit": commit, "ETag": f'"{file.etag}"'}
        if not file.is_lfs:
            self.serve(file.path, file, common)
            return
        link_headers = {"X-Linked-Size": str(len(file.content)), "X-Linked-ETag": f'"{file.sha256}"'}
        in_xet = self.served_hub.cas.xet_hashes.get(file.sha256)
        if in_xet is not None:
            route = f"{self.served_hub.url}/api/models/{repository.name}/xet-read-token/{commit}"
            link_headers |= {"X-Xet-Hash": in_xet, "X-Xet-Refresh-Route": route, "Link": f'<{route}>; rel="xet-auth"'}
        where = f"{self.served_hub.storage_url}/storage/{file.sha256}/{file.path}"
        self.reply(302, b"", {**common, **link_headers, "Location": where})

    def serve(self, path: str, file: StoredFile | None, headers: dict[str, str] | None = None) -> None:
        if file is None:
            self.refuse(404, "EntryNotFound", "Not found")
            return
        self.serve_as(file, self.served_hub.faults.get(path), headers)

    def serve_as(
        self, file: StoredFile, fault: Callable[..., bool] | None, headers: dict[str, str] | None = None
    ) -> None:
        if fault is not None and fault(self, file):
            return
        status, body, more = cut(file, self.headers.get("Range"))
        self.reply(status, body, {"ETag": f'"{file.etag}"', "Accept-Ranges": "bytes", **(headers or {}), **more})

    def refuse(self, status: int, code: str, message: str) -> None:
        self.reply(status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def reply_json(self, value: object) -> None:
        self.reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.served_hub.sent_bytes += len(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Stay silent."""


def cut(file: StoredFile, asked_range: str | None) -> tuple[int, bytes, dict[str, str]]:
    """Return status, bytes and headers for a range of a file."""
    size, match = len(file.content), _RANGE.match(asked_range or "")
    if match is None:
        return 200, file.content, {}
    start, end = int(match[1]), min(int(match[2] or size), size - 1)
    if start > end:
        return 416, b"", {"Content-Range": f"bytes */{size}"}
    return 206, file.content[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{size}"}


def _by_etag(hub: FakeHub, etag: str) -> StoredFile | None:
    files = (
        file
        for repository in hub.repositories.values()
        for branch in repository.branches
        for file in repository.files(branch)
    )
    return next((file for file in files if file.etag == etag), None)


def _description(repository: StoredRepository, branch: str) -> dict[str, object]:
    return {
        "id": repository.name,
        "modelId": repository.name,
        "sha": repository.commit(branch),
        "private": False,
        "gated": repository.gated or False,
        "lastModified": "2026-11-01T00:00:00.000Z",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "downloads": 1000,
        "likes": 10,
        "tags": [],
        "siblings": [file.describe_file() for file in repository.files(branch)],
        **repository.about,
    }


def _leaf(file: StoredFile) -> dict[str, object]:
    leaf: dict[str, object] = {"type": "file", "path": file.path, "size": len(file.content), "oid": file.oid}
    if file.is_lfs:
        leaf["lfs"] = {"oid": file.sha256, "size": len(file.content), "pointerSize": 130}
    return leaf


def _find_repositories(hub: FakeHub, query: dict[str, list[str]]) -> list[dict[str, object]]:
    words = " ".join(query.get("search", [""])).casefold().split()
    tags = query.get("filter", [])
    author = query.get("author", [""])[0]
    task, gate = query.get("pipeline_tag", [""])[0], query.get("gated", [""])[0]
    descriptions = [
        _description(repository, "main")
        for repository in hub.repositories.values()
        if all(word in repository.name.casefold() for word in words)
        and all(tag in repository.about.get("tags", []) for tag in tags)
        and repository.name.startswith(f"{author}/" if author else "")
        and task in {"", repository.about.get("pipeline_tag")}
        and gate in {"", str(bool(repository.gated)).lower()}
    ]
    key = query.get("sort", [""])[0]
    if key:
        descriptions.sort(
            key=lambda repository: (
                str(repository.get(key, "")) if key == "lastModified" else int(str(repository.get(key, 0)))
            )
        )
        descriptions.reverse()
    expand = query.get("expand", []) + query.get("expand[]", [])
    return (
        [
            {name: value for name, value in repository.items() if name in {"id", "modelId", *expand}}
            for repository in descriptions
        ]
        if (expand)
        else descriptions
    )


def _page(hub: FakeHub, query: dict[str, list[str]]) -> tuple[list[dict[str, object]], str]:
    """Return a page of what is found and the address of the next, as the hub's `Link` header gives it."""
    repositories = _find_repositories(hub, query)
    start = int(query.get("cursor", ["0"])[0])
    end = start + int(query.get("limit", ["1000"])[0])
    rest = {name: values for name, values in query.items() if name != "cursor"}
    next_url = f"{hub.url}/api/models?{urlencode({**rest, 'cursor': [str(end)]}, doseq=True)}"
    return repositories[start:end], f'<{next_url}>; rel="next"' if end < len(repositories) else ""
