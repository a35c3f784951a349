"""The scripted server against which tools are compared keeps its schedule, and our client reads it as it is."""

import pytest

from tests.bench import field_tools
from tests.bench.field_tools import FIRST_S, TOKEN_S, TOKENS, ToolMeans, compare_means, measure_ours, scripted_server


async def test_our_client_measures_what_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_tools, "REQUESTS", 4)
    with scripted_server() as url:
        means = await measure_ours(url)
    assert means.ttft_s >= FIRST_S
    assert means.e2e_s >= FIRST_S + (TOKENS - 1) * TOKEN_S
    assert means.token_s == pytest.approx((means.e2e_s - means.ttft_s) / (TOKENS - 1))
    assert means.tokens_s <= 4 * TOKENS / means.e2e_s * 1.01, "four at once, and no more"


def test_differences_are_per_cent_of_the_other_tools() -> None:
    ours = ToolMeans(ttft_s=0.102, token_s=0.01, e2e_s=0.7, tokens_s=99.0)
    theirs = ToolMeans(ttft_s=0.1, token_s=0.01, e2e_s=0.7, tokens_s=100.0)
    assert compare_means(ours, theirs) == pytest.approx({"ttft_s": 2, "token_s": 0, "e2e_s": 0, "tokens_s": 1})


def test_without_tools_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(field_tools.TOOLS_VARIABLE, raising=False)
    (figure,) = field_tools.measure()
    assert figure.ok is None
