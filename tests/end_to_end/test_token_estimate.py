"""How far an estimate of tokens is off, by the tokenizer of the Guide: as far as the estimate's own words say,
with some room for files that change.

`pytest -s` prints the ratios.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.config.paths import RESOURCES
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Text
from app.gateway.exchange.token_count import estimate_tokens
from engines.api import LaunchOptions
from tests.end_to_end.worker import Worker

pytestmark = pytest.mark.real_engine

ROOT = Path(__file__).parents[2]
GUIDE = RESOURCES / "guide" / "guide-q8_0.gguf"
OPTIONS = LaunchOptions(context=512, slots=1, threads=2)
TEXT = (
    "README.md",
    "ARCHITECTURE.md",
    "docs/reference/endpoint.md",
    "docs/guide/security.md",
    "docs/reference/advisor.md",
    "LICENSE",
)
CODE = (
    "app/gateway/exchange/upstream.py",
    "app/gateway/dialects/openai/chat_request.py",
    "tests/gateway/played.py",
    "pyproject.toml",
    "engines/architectures.toml",
)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker(GUIDE, OPTIONS)) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


@pytest.mark.parametrize(
    ("names", "least", "most"), [(TEXT, 0.5, 0.75), (CODE, 0.4, 0.6)], ids=["text", "code and tables"]
)
def test_an_estimate_is_as_far_off_as_it_says(
    worker: Worker, names: tuple[str, ...], least: float, most: float
) -> None:
    ratios = {name: _ratio(worker, (ROOT / name).read_text()) for name in names}
    print({name: round(ratio, 2) for name, ratio in ratios.items()})  # noqa: T201 -- what this is run for
    assert least <= min(ratios.values())
    assert max(ratios.values()) <= most


def _ratio(worker: Worker, text: str) -> float:
    body = {"model": "guide", "messages": [{"role": "user", "content": text}]}
    exact = int(worker.ask("/v1/messages/count_tokens", body)["input_tokens"])
    return (
        estimate_tokens(ConversationRequest(messages=(ConversationMessage(MessageRole.USER, (Text(text),)),))) / exact
    )
