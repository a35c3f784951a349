"""Real clients with keys, against a gateway that other computers can reach and the real engine."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.api import Status
from app.core.keys import KeyWithSecret, NewKey
from app.gateway.entry.keys import KeyStore
from tests.end_to_end.conftest import Roundhouse, stop
from tests.written import contents_below

pytestmark = [pytest.mark.real_engine, pytest.mark.own_gateway]

ASKED: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "What is Roundhouse?"}]


@pytest.fixture(scope="module")
def key(home: Paths) -> str:
    """The first key, made before anything listens."""
    home.create_folders()
    return KeyStore(home.keys_file).make_key(NewKey(name="editor")).key


@pytest.fixture(scope="module")
def url(home: Paths, key: str) -> Iterator[str]:
    """Where others reach it, or this computer where there is no network."""
    assert key
    home.settings_file.write_text('[gateway]\nhost = "0.0.0.0"\nport = 18741\n')
    status = GatewayClient(ensure_gateway(home), timeout_s=60).get("/status", Status)
    yield next(iter(status.reachable_at), status.url)
    stop(home)


def test_openais_client_with_a_key_and_without(url: str, key: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60) as api:
        reply = api.chat.completions.create(model="guide", messages=ASKED, max_tokens=8)
        assert reply.choices[0].message.content
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="rh-wrong", max_retries=0, timeout=60) as api,
        pytest.raises(openai.AuthenticationError, match="not valid for this endpoint"),
    ):
        api.models.list()


def test_anthropics_client_with_a_key_and_without(url: str, key: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60) as api:
        message = api.messages.create(model="guide", max_tokens=8, messages=[{"role": "user", "content": "Hello"}])
        assert message.content
    with (
        anthropic.Anthropic(base_url=url, api_key="rh-wrong", max_retries=0, timeout=60) as api,
        pytest.raises(anthropic.AuthenticationError),
    ):
        api.messages.create(model="guide", max_tokens=8, messages=[{"role": "user", "content": "Hello"}])


@pytest.mark.slow
def test_the_command_line_needs_no_key(url: str, roundhouse: Roundhouse) -> None:
    result = roundhouse("run", "guide", "--temperature", "0", "hello", "--max-tokens", "8")
    assert url
    assert (result.returncode, bool(result.stdout.strip())) == (0, True), result.stderr


def test_no_file_holds_the_key(url: str, key: str, home: Paths) -> None:
    assert url
    written_files = contents_below(home.data.parent)
    assert home.keys_file in written_files
    assert [file for file, content in written_files.items() if key.encode() in content] == []


def test_no_key_can_tell_from_the_cache_what_another_asked(
    url: str, key: str, home: Paths, roundhouse: Roundhouse
) -> None:
    prompt = "The password of the safe in the cellar is a word that nobody guesses. " * 20

    def cached_by(api_key: str) -> tuple[int, int]:
        """Ask in OpenAI's dialect and in Anthropic's; return how many tokens of the prompt were there already."""
        chat: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": prompt}]
        with openai.OpenAI(base_url=f"{url}/v1", api_key=api_key, max_retries=0, timeout=60) as api:
            usage = api.chat.completions.create(model="guide", messages=chat, max_tokens=1).usage
        with anthropic.Anthropic(base_url=url, api_key=api_key, max_retries=0, timeout=60) as other:
            message = other.messages.create(model="guide", max_tokens=1, messages=[{"role": "user", "content": prompt}])
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens or 0, message.usage.cache_read_input_tokens or 0

    assert roundhouse("unload", "guide").returncode == 0  # others have used this run
    cached_by(key)
    assert min(cached_by(key)) > 100
    theirs = GatewayClient(ensure_gateway(home), timeout_s=60).post("/keys", NewKey(name="theirs"), KeyWithSecret).key
    assert cached_by(theirs) == (0, 0)
    assert cached_by(key) == (0, 0)
