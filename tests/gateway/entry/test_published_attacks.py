"""Attacks published in 2026 against programs of this kind, each tried here under the number of its advisory."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from aiohttp import web

from app.core.api import PREFIX
from app.core.engine_store import OWN
from app.core.errors import BadRequest, EngineFailed
from app.core.keys import NewKey, Scope
from app.engine_store.catalogue import EngineCatalogue, old_version_failure
from app.engine_store.version_store import VersionState, VersionStore
from app.gateway.exchange.constraints import refuse_remote_media
from app.gateway.loading.template_trials import TemplateTrials, check_template_of
from app.hub.repositories.repository import resolve_address
from app.supervisor.policy import LoadRequest
from engines.api import (
    Descriptor,
    EngineAdapter,
    EngineInstallation,
    EngineLocation,
    FailureKind,
    LaunchOptions,
    ListenOptions,
    ModelFormat,
    ModelSource,
)
from engines.llama_cpp.launch import ADAPTER as LLAMA_CPP
from engines.sglang.launch import ADAPTER as SGLANG
from engines.vllm.launch import ADAPTER as VLLM
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama

if TYPE_CHECKING:
    from app.gateway.advising.model_facts import FactsReader

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data",
        "http:\\\\169.254.169.254\\latest",
        "\\\\169.254.169.254\\share\\a.png",
        "//169.254.169.254/a.png",
        "/\\169.254.169.254/a.png",
        "http:/\\169.254.169.254/a.png",
        "HtTp://example.com@169.254.169.254",
        " \thttps://a",
        "file:/etc/passwd",
        "/etc/passwd",
        "etc/passwd",
        "../../etc/passwd",
        "/" * 80 + "etc/passwd",
        "C:\\secret.png",
        "secret.png",
    ],
)
@pytest.mark.parametrize(
    "part",
    [
        lambda address: {"type": "image_url", "image_url": {"url": address}},
        lambda address: {"type": "image_url", "image_url": address},
        lambda address: {"type": "video_url", "video_url": {"url": address}},
        lambda address: {"type": "audio_url", "audio_url": {"url": address}},
    ],
    ids=["image", "image as text", "video", "audio"],
)
async def test_addresses_of_media(gateway: Gateway, address: str, part: Callable[[str], object]) -> None:
    """vLLM (CVE-2026-24779: a back-slash before the host) and LMDeploy (CVE-2026-33626) fetched or opened them."""
    status, answer = await gateway.chat(messages=[{"role": "user", "content": [PICTURE, part(address)]}])
    assert (status, answer["error"]["code"]) == (400, "remote_media")
    assert gateway.upstream.bodies == []


@pytest.mark.parametrize("data", ["data:image/png;base64,AA==", "iVBORw0KGgo=", "/9j/" + "A" * 80, "A" * 64])
def test_media_that_come_along_are_passed_on(data: str) -> None:
    part = {"type": "image_url", "image_url": {"url": data}}
    refuse_remote_media(json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode())


class _Anything(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "x"


ADMIN = {"Authorization": "Bearer token"}
COMMAND = {"model": "guide", "settings": {"extra_args": ["--rpc", "evil:1"]}}
INJECTIONS = ["' OR 1=1 --", "x' UNION SELECT key FROM keys--", '" OR ""="', "%27%20OR%201=1", "rh-%", "rh-*", "rh-_"]


@pytest.mark.parametrize("text", INJECTIONS)
async def test_sql_in_the_authorization_header(gateway: Gateway, text: str) -> None:
    """CVE-2026-42208: a gateway looked its keys up with a query made from the header. Ours are compared as hashes."""
    gateway.services.keys.make_key(NewKey(name="one", scopes=[Scope.MANAGE]))
    gateway.services.settings.change_values({"gateway.require_key": True})
    for header in ("Authorization", "x-api-key", "api-key"):
        value = f"Bearer {text}" if header == "Authorization" else text
        for path in ("/v1/models", f"{PREFIX}/keys"):
            async with gateway.http.get(gateway.url + path, headers={header: value}) as reply:
                assert reply.status in {401, 429}
    assert [key.name for key in gateway.services.keys.list_keys()] == ["one"]


@pytest.mark.slow
async def test_a_key_that_may_only_ask_adds_no_command(gateway: Gateway) -> None:
    """CVE-2026-42271: a low key registered a server that is started by a command line. No route of ours takes one."""
    key = gateway.services.keys.make_key(NewKey(name="low", scopes=[Scope.INFERENCE])).key
    async with gateway.http.get(f"{gateway.url}{PREFIX}/openapi.json", headers=ADMIN) as reply:
        paths: dict[str, dict[str, object]] = (await reply.json())["paths"]
    calls = [(method.upper(), path.format_map(_Anything())) for path, methods in paths.items() for method in methods]
    own = [(method, path) for method, path in calls if path.startswith(PREFIX)]
    assert len(own) > 80
    low = {"Authorization": f"Bearer {key}"}
    for method, path in own:
        async with gateway.http.request(method, gateway.url + path, json=COMMAND, headers=low) as reply:
            assert reply.status == 403, (method, path)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254\\@example.com",
        "http://example.com\\@169.254.169.254",
        "http://example.com@169.254.169.254/v1",
        "http://2852039166/v1",
        "http://0251.0376.0251.0376/v1",
        "http://0xa9fea9fe/v1",
        "http://169.254.43518/v1",
        "http://[::ffff:a9fe:a9fe]/v1",
        "http://[64:ff9b::a9fe:a9fe]/v1",
        "http://169。254。169。254/v1",
        "http://①⑥⑨.254.169.254/v1",
        "http://169.254.169.254%00.example.com/v1",
        "http://169.254.169.254#.example.com/v1",
        "http://169.254.169.254?.example.com/v1",
    ],
)
async def test_addresses_that_parsers_read_in_two_ways(gateway: Gateway, url: str) -> None:
    """CVE-2026-45400: what is checked must be what is called."""
    async with gateway.http.post(f"{gateway.url}{PREFIX}/attached", json={"url": url}, headers=ADMIN) as reply:
        assert reply.status == 400 or "is one that is never contacted" in await reply.text()


async def test_a_redirect_of_an_endpoint_to_link_local(gateway: Gateway) -> None:
    """CVE-2026-45401: the first address was checked and where it led was not."""
    paths: list[str] = []

    async def lead_away(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        raise web.HTTPTemporaryRedirect("http://169.254.169.254/latest/meta-data")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", lead_away)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    document = {"url": f"http://127.0.0.1:{port}/v1"}
    async with gateway.http.post(f"{gateway.url}{PREFIX}/attached", json=document, headers=ADMIN) as reply:
        assert reply.status in {400, 502, 503}, await reply.text()
    await runner.cleanup()
    assert paths


@pytest.mark.parametrize(
    "path",
    [
        *("..\\evil.gguf", "a\\..\\..\\evil.gguf", "C:evil.gguf", "evil.gguf:stream", "evil\x00.gguf", "a//b.gguf"),
        *("NUL", "nul.gguf", "CON", "con.txt", "aux/model.gguf", "PRN .gguf", "COM1.gguf", "lpt9", "COM¹.gguf"),
        *("CONOUT$", "model.gguf.", "model.gguf ", "./x", "../x", "/x"),
    ],
)
def test_names_of_files_on_a_hub(path: str) -> None:
    """CVE-2026-119979: back-slashes, and names that Windows keeps for devices."""
    with pytest.raises(BadRequest) as error:
        resolve_address("https://huggingface.co", "org/model", "a" * 40, path)
    assert error.value.code == "bad_address"


@pytest.mark.parametrize("path", ["model.gguf", "Console.gguf", "a/nullable.gguf", "com10.gguf", "auxiliary/x.json"])
def test_names_that_only_begin_like_devices_are_names(path: str) -> None:
    assert resolve_address("https://huggingface.co", "org/model", "a" * 40, path).endswith(path)


async def test_tensors_past_the_end_of_an_uploaded_file(near: Gateway) -> None:
    """CVE-2026-7482: a header whose tensors lie beyond the file was read past its end, and the memory told."""
    whole = TinyLlama().content()
    for cut in (len(whole) - 1, len(whole) // 2):
        data = whole[:cut]
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        async with near.http.post(f"{near.url}/api/blobs/{digest}", data=data) as reply:
            assert reply.status == 201
        document = {"model": "evil", "files": {"evil.gguf": digest}, "stream": False}
        async with near.http.post(f"{near.url}/api/create", json=document) as reply:
            assert reply.status == 400, await reply.text()
            assert "error" in await reply.json()
    assert "evil" not in {model.name for model in near.services.library.list_models()}


ESCAPES = [
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ ''|attr('__class__') }}",
    "{% if messages|length > 999 %}{{ joiner.__init__.__globals__ }}{% endif %}{{ messages[0].content }}",
    "{% set name = '__cla' ~ 'ss__' %}{{ messages[0].content }}{{ ''[name] }}",
]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> TemplateTrials:
    return TemplateTrials(tmp_path_factory.mktemp("trials") / "verdicts.json")


@pytest.mark.parametrize("template", ESCAPES)
@pytest.mark.parametrize("task", ["chat", "rerank", "embed"])
def test_templates_that_reach_for_python(trials: TemplateTrials, template: str, task: str) -> None:
    """CVE-2026-5760: SGLang rendered a ranking model's template without a sandbox. It never gets one such."""
    source = ModelSource(name="model", path=Path("/nowhere"), format=ModelFormat.SAFETENSORS)
    options = LaunchOptions(task=task, chat_template=template)
    load = LoadRequest(engine="sglang", source=source, options=options)
    with pytest.raises(EngineFailed, match="Python's own objects") as error:
        check_template_of(trials, cast("FactsReader", None), load)  # no file is read: the template is given
    assert error.value.code == "bad_template"


@pytest.mark.parametrize(
    ("adapter", "flag"),
    [
        *((LLAMA_CPP, flag) for flag in ("--rpc", "--sleep-idle-seconds", "--mcp-servers-config", "--media-path")),
        *((SGLANG, flag) for flag in ("--disaggregation-mode", "--dist-init-addr", "--grpc-port", "--nccl-init-addr")),
        *((VLLM, flag) for flag in ("--allowed-local-media-path", "--grpc-port", "--data-parallel-rpc-port")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("form", ["{} 0", "{}=0"])
def test_flags_that_open_another_port_or_path(adapter: EngineAdapter, flag: str, form: str) -> None:
    """CVE-2026-34159 (llama.cpp's RPC) and CVE-2026-3059, CVE-2026-3060 (SGLang's sockets, which unpickle)."""
    words = tuple(form.format(flag).split())
    installation = EngineInstallation(
        engine=adapter.descriptor.id, version="", backend="cuda", python=Path("python"), executable=Path("llama-server")
    )
    model = ModelSource(name="m", path=Path("/m"), format=adapter.descriptor.formats[0])
    net = ListenOptions(host="127.0.0.1", port=1, key="k")
    with pytest.raises(ValueError, match=flag):
        adapter.plan(model, LaunchOptions(extra_args=words), net, installation)


@pytest.mark.parametrize("adapter", [VLLM, SGLANG], ids=["vLLM", "SGLang"])
def test_a_models_own_code_without_permission(adapter: EngineAdapter) -> None:
    """CVE-2026-22807: vLLM ran what `auto_map` names though nobody trusted it. Nothing says so unless a person does."""
    installation = EngineInstallation(engine=adapter.descriptor.id, version="", backend="cuda", python=Path("python"))
    model = ModelSource(name="m", path=Path("/m"), format=adapter.descriptor.formats[0])
    net = ListenOptions(host="127.0.0.1", port=1, key="k")
    (process,) = adapter.plan(model, LaunchOptions(), net, installation).processes
    assert not [word for word in process.argv if "trust" in word]
    with pytest.raises(ValueError, match="trust"):
        adapter.plan(model, LaunchOptions(extra_args=("--trust-remote-code",)), net, installation)


@pytest.mark.parametrize(
    ("about", "version", "is_own", "is_refused"),
    [
        (LLAMA_CPP.descriptor, "b9060", True, True),
        (LLAMA_CPP.descriptor, "b9060", False, True),
        (LLAMA_CPP.descriptor, "b0", True, True),
        (LLAMA_CPP.descriptor, "", True, True),
        (LLAMA_CPP.descriptor, "5e7d2d0", True, True),
        (LLAMA_CPP.descriptor, "b9061", True, False),
        (LLAMA_CPP.descriptor, "b11549", False, False),
        (LLAMA_CPP.descriptor, "0.8.0", False, False),
        (VLLM.descriptor, "0.17.1", False, True),
        (VLLM.descriptor, "0.9.2", False, True),
        (VLLM.descriptor, "0.18", False, False),
        (VLLM.descriptor, "0.32.0", False, False),
        (SGLANG.descriptor, "0.1", False, False),
    ],
)
def test_versions_with_published_holes(about: Descriptor, version: str, *, is_own: bool, is_refused: bool) -> None:
    """CVE-2026-27940, 34159, 43629 to 43632 and 118375 (llama.cpp), CVE-2026-22807, 22778 and 27893 (vLLM)."""
    installation = EngineInstallation(engine=about.id, version=version, backend="cpu")
    place = EngineLocation(backend="cpu", folder=Path("/x"), version="" if is_own else version)
    failure = old_version_failure(about, installation, place)
    assert (failure is not None) is is_refused
    if failure is not None:
        assert (failure.kind, about.least_version in failure.sentence) == (FailureKind.OUTDATED, True)
        assert "engine.allow_outdated" in failure.hint


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_an_outdated_program_of_ones_own_runs_only_when_somebody_says_so(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(
        "#!/bin/sh\ncase $1 in --version) echo 'version: 9060 (x)' >&2 ;; *) echo '--model --ctx-size --port' ;; esac\n"
    )
    program.chmod(0o755)
    shelf = VersionStore(tmp_path / "engines")
    shelf.change_state("llama.cpp", lambda _before: VersionState(current=OWN, own=str(program)))
    is_allowed = False
    catalogue = EngineCatalogue({"llama.cpp": LLAMA_CPP}, shelf, lambda: is_allowed)
    with pytest.raises(EngineFailed, match=r"llama\.cpp b9060 may have published security holes; b9061") as error:
        catalogue.find_installation("llama.cpp")
    assert error.value.code == "outdated"
    is_allowed = True
    assert catalogue.find_installation("llama.cpp").version == "b9060"
