import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError, TooLarge, Unauthorized, Unavailable
from app.hub.facts import read_facts
from app.hub.facts.remote import read_remote_facts
from app.hub.repositories import ranges
from app.hub.repositories.ranges import ReadBudget, RemoteHost, RemoteSource
from tests.gguf_files import ARRAY, STRING, TinyLlama, Typed, gguf_bytes
from tests.range_server import Hub, serve_ranges
from tests.safetensors_files import header_bytes

GUIDE = Path(__file__).resolve().parents[4] / "resources" / "guide"
PLACE = "/someone/model/resolve/main"
LISTING = "/api/models/someone/model/revision/main"
TINY = TinyLlama().content()
LOOKING = Purpose(why=ConnectionReason.MODEL)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_ranges(Hub()) as served_hub:
        yield served_hub


def listing(*names: str) -> bytes:
    return json.dumps({"siblings": [{"rfilename": name} for name in names]}).encode()


def refusal(hub: Hub, what: str = "someone/model", filename: str = "tiny.gguf") -> RoundhouseError:
    with pytest.raises(RoundhouseError) as error:
        read_remote_facts(what, filename=filename, endpoint=hub.url)
    return error.value


def test_a_header_far_away_says_what_it_says_here(hub: Hub) -> None:
    content = (GUIDE / "guide-q8_0.gguf").read_bytes()
    hub.files[f"{PLACE}/sub/guide-q8_0.gguf"] = content
    here = read_facts(GUIDE / "guide-q8_0.gguf")
    assert read_remote_facts("someone/model", filename="sub/guide-q8_0.gguf", endpoint=hub.url) == here
    assert hub.requests == [(f"{PLACE}/sub/guide-q8_0.gguf", "bytes=0-1048575")]
    assert read_remote_facts(f"{hub.url}{PLACE}/sub/guide-q8_0.gguf", endpoint=hub.url) == here


def test_only_the_header_is_fetched_in_few_requests(hub: Hub) -> None:
    words = Typed(ARRAY, [f"word{number}" for number in range(200_000)], STRING)
    content = TinyLlama(values={"tokenizer.ggml.tokens": words}).content()
    hub.files[f"{PLACE}/tiny.gguf"] = content + bytes(64 << 20)
    facts = read_remote_facts("someone/model", filename="tiny.gguf", endpoint=hub.url)
    assert facts.file_bytes == len(content) + (64 << 20)
    assert len(hub.requests) == 3
    assert hub.sent_bytes == 4 << 20


def test_the_parts_of_a_split_model_are_found_by_name(hub: Hub) -> None:
    whole = TinyLlama()
    tensors = whole.tensors()
    hub.files[f"{PLACE}/q/tiny-00001-of-00002.gguf"] = gguf_bytes({**whole.metadata(), "split.count": 2}, tensors[:5])
    hub.files[f"{PLACE}/q/tiny-00002-of-00002.gguf"] = gguf_bytes({"split.count": 2}, tensors[5:])
    facts = read_remote_facts("someone/model", filename="q/tiny-00002-of-00002.gguf", endpoint=hub.url)
    assert facts.name == "tiny"
    hub.files[f"{PLACE}/tiny.gguf"] = whole.content()
    alone = read_remote_facts("someone/model", filename="tiny.gguf", endpoint=hub.url)
    assert (facts.parameters, facts.layers) == (alone.parameters, alone.layers)


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_repository_of_safetensors_is_read_from_headers(hub: Hub, *, is_listed: bool) -> None:
    for name in ("config.json", "model.safetensors", "chat_template.jinja", "tokenizer_config.json"):
        hub.files[f"{PLACE}/{name}"] = (GUIDE / "hf" / name).read_bytes()
    if is_listed:
        hub.files[LISTING] = listing("config.json", "model.safetensors", "chat_template.jinja")
    here = read_facts(GUIDE / "hf")
    facts = read_remote_facts("someone/model", endpoint=hub.url)
    assert msgspec.structs.replace(facts, name="hf") == here
    assert hub.sent_bytes < 1 << 20


def test_shards_of_an_index_are_read_together(hub: Hub) -> None:
    config = json.loads((GUIDE / "hf" / "config.json").read_text())
    hub.files[f"{PLACE}/config.json"] = json.dumps(config).encode()
    names = [f"model-{number:05d}-of-00009.safetensors" for number in range(1, 10)]
    for number, name in enumerate(names):
        header, size = header_bytes({f"model.layers.{number % 5}.mlp.x{number}.weight": ("BF16", [640, 256])})
        hub.files[f"{PLACE}/{name}"] = header + bytes(size)
    index = {"weight_map": {str(number): name for number, name in enumerate(names)}}
    hub.files[f"{PLACE}/model.safetensors.index.json"] = json.dumps(index).encode()
    facts = read_remote_facts("someone/model", endpoint=hub.url)
    assert facts.parameters == 9 * 640 * 256
    assert facts.file_bytes == sum(len(hub.files[f"{PLACE}/{name}"]) for name in names)


def test_a_repository_of_gguf_files_is_its_only_model_or_asks_which(hub: Hub) -> None:
    hub.files[f"{PLACE}/tiny.gguf"] = TINY
    hub.files[LISTING] = listing("tiny.gguf", "README.md", "mmproj-tiny.gguf")
    assert read_remote_facts("someone/model", endpoint=hub.url).name == "tiny"
    hub.files[LISTING] = listing("tiny-Q3_K_M.gguf", "tiny-Q8_0.gguf")
    error = refusal(hub, filename="")
    assert (error.code, error.hint) == ("model_unsupported", "Choose one of them: tiny-Q3_K_M.gguf, tiny-Q8_0.gguf.")


@pytest.mark.parametrize(
    ("quantization", "name"),
    [("", "tiny-Q4_K_M"), (":q8_0", "tiny-Q8_0"), (":UD-Q4_K_M", "tiny-UD-Q4_K_M"), (":Q2_K", "tiny-Q2_K")],
)
def test_a_quantisation_chooses_among_many(hub: Hub, quantization: str, name: str) -> None:
    names = ["tiny-Q4_K_M.gguf", "tiny-UD-Q4_K_M.gguf", "tiny-Q8_0.gguf", "Q2_K/tiny-Q2_K-00001-of-00002.gguf"]
    names.append("Q2_K/tiny-Q2_K-00002-of-00002.gguf")
    hub.files[LISTING] = listing(*names, "config.json") if quantization else listing(*names)
    hub.files.update({f"{PLACE}/{file}": TINY for file in names})
    assert read_remote_facts(f"someone/model{quantization}", endpoint=hub.url).name == name


def test_a_repository_of_pickles_is_refused(hub: Hub) -> None:
    hub.files[f"{PLACE}/config.json"] = (GUIDE / "hf" / "config.json").read_bytes()
    hub.files[LISTING] = listing("config.json", "pytorch_model.bin")
    assert "pickled" in str(refusal(hub, filename=""))


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, Unauthorized, "hub_unauthorized"),
        (403, Forbidden, "hub_forbidden"),
        (404, NotFound, "model_not_found"),
        (416, BadRequest, "model_corrupt"),
        (429, Unavailable, "hub_busy"),
        (500, Unavailable, "hub_unreachable"),
        (503, Unavailable, "hub_unreachable"),
    ],
)
def test_a_refusal_is_said_in_words(hub: Hub, status: int, kind: type[RoundhouseError], code: str) -> None:
    hub.statuses[f"{PLACE}/tiny.gguf"] = status
    error = refusal(hub)
    assert isinstance(error, kind)
    assert error.code == code
    assert str(error).endswith(".")


def test_a_server_that_asks_to_wait_is_quoted(hub: Hub) -> None:
    hub.statuses[f"{PLACE}/tiny.gguf"] = 429
    hub.headers["Retry-After"] = "17"
    assert "17 seconds" in refusal(hub).hint


def test_without_ranges_the_start_is_enough(hub: Hub) -> None:
    hub.ranges = False
    hub.files[f"{PLACE}/tiny.gguf"] = TINY + bytes(32 << 20)
    facts = read_remote_facts("someone/model", filename="tiny.gguf", endpoint=hub.url)
    assert facts.file_bytes == len(TINY) + (32 << 20)
    assert len(hub.requests) == 1


def test_a_server_that_pours_without_end_is_left(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MAX_BYTES", 1 << 20)
    hub.endless = True
    endless = gguf_bytes({"general.architecture": "llama"})[:-32]
    hub.files[f"{PLACE}/tiny.gguf"] = endless[:16] + (1).to_bytes(8, "little") + (2**40).to_bytes(8, "little")
    assert isinstance(refusal(hub), TooLarge | BadRequest)
    header = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (1).to_bytes(8, "little")
    key = (1).to_bytes(8, "little") + b"k" + (9).to_bytes(4, "little") + (8).to_bytes(4, "little")
    hub.files[f"{PLACE}/tiny.gguf"] = header + key + (10**6).to_bytes(8, "little")
    remote = RemoteHost(hub.url, LOOKING, budget=ReadBudget(max_bytes=1 << 20))
    source = RemoteSource(remote, f"{hub.url}{PLACE}/tiny.gguf")
    with pytest.raises(TooLarge):
        source.read_at(0, 2 << 20)
    source.close()


@pytest.mark.parametrize(
    "content_range", ["", "bytes 5-9/20", "bytes */20", "bytes 0-9/99999999999999999999", "bytes 0-9/*", "nonsense"]
)
def test_a_part_that_was_not_asked_for_is_refused(hub: Hub, content_range: str) -> None:
    hub.files[f"{PLACE}/tiny.gguf"] = TINY
    hub.headers["Content-Range"] = content_range
    assert refusal(hub).code == "hub_unreachable"


def test_a_connection_that_breaks_is_said_so(hub: Hub) -> None:
    hub.files[f"{PLACE}/tiny.gguf"] = TINY[:100]
    hub.headers["Content-Range"] = f"bytes 0-1048575/{len(TINY)}"
    hub.headers["Content-Length"] = "1000"
    hub.headers["Connection"] = "close"
    assert refusal(hub).code == "hub_unreachable"


def test_a_host_that_is_not_there_is_said_so(unused_port: int) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        read_remote_facts("someone/model", filename="x.gguf", endpoint=f"http://127.0.0.1:{unused_port}")


@pytest.mark.parametrize(
    ("what", "filename"),
    [
        ("http://example.com/x.gguf", ""),
        ("file:///etc/passwd", ""),
        ("ftp://example.com/x.gguf", ""),
        ("https://user:secret@example.com/x.gguf", ""),
        ("https:///x.gguf", ""),
        ("https://example.com:port/x.gguf", ""),
        ("model", ""),
        ("../model", ""),
        ("a/b/c", ""),
        ("someone/model", "../../x.gguf"),
        ("someone/model", "/x.gguf"),
        ("someone/model", "a//x.gguf"),
        ("someone/model", "x.gguf?download=1"),
        ("someone/model", "a\\..\\x.gguf"),
    ],
)
def test_only_plain_names_and_https_are_asked_for(hub: Hub, what: str, filename: str) -> None:
    error = refusal(hub, what, filename)
    assert (type(error), error.code) == (BadRequest, "bad_address")
    assert hub.requests == []


def test_a_redirect_may_not_lead_to_plain_http_or_files(hub: Hub) -> None:
    for target in ("http://example.com/x.gguf", "file:///etc/passwd"):
        hub.redirects[f"{PLACE}/tiny.gguf"] = target
        assert refusal(hub).code in {"bad_address", "hub_unreachable"}


def test_a_redirect_is_followed_and_gets_no_token(hub: Hub) -> None:
    hub.redirects[f"{PLACE}/tiny.gguf"] = "/elsewhere"
    hub.files["/elsewhere"] = TINY
    facts = read_remote_facts("someone/model", filename="tiny.gguf", endpoint=hub.url, token="hf_made_up")
    assert facts.architecture == "llama"
    assert hub.tokens == ["Bearer hf_made_up", None]
    hub.redirects["/elsewhere"] = "/elsewhere"
    assert refusal(hub).code == "hub_unreachable"


def test_a_token_is_shown_to_the_endpoint_only(hub: Hub) -> None:
    with serve_ranges(Hub(files={"/x.gguf": TINY})) as other:
        remote = RemoteHost(hub.url, LOOKING, token="hf_made_up")
        with pytest.raises(BadRequest):
            remote.open_address(f"{other.url}/x.gguf", {})
        RemoteHost(other.url, LOOKING, token="").open_address(f"{other.url}/x.gguf", {}).close()
        assert other.tokens == [None]


def test_requests_and_time_are_limited() -> None:
    budget = ReadBudget(max_requests=2)
    budget.count_request()
    budget.count_request()
    with pytest.raises(TooLarge):
        budget.count_request()
    late = ReadBudget(deadline_s=0.0)
    start = time.monotonic()
    while time.monotonic() == start:
        pass
    with pytest.raises(Unavailable, match="slowly"):
        late.count_bytes(1)
