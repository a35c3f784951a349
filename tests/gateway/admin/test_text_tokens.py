"""Counting the tokens of a text: nothing is loaded for it, and what nobody can count is estimated and marked."""

from app.core.tokens import CountText, TextTokens
from tests.gateway.admin.conftest import Api


async def test_a_model_that_is_not_loaded_is_estimated(api: Api) -> None:
    count = await api.call("POST", "/tokens", TextTokens, CountText(model="guide", text="a" * 40))
    assert count.tokens == 10 or not count.is_estimate
    assert api.gateway.upstream.bodies == [] or not count.is_estimate


async def test_bad_questions_are_refused(api: Api) -> None:
    assert (await api.expect_refusal("POST", "/tokens", CountText(model="nobody", text="x")))[0] == 404
    assert (await api.raw("POST", "/tokens", {"model": "guide"}))[0] == 400
    assert (await api.raw("POST", "/tokens", {"model": "guide", "text": "x" * 1_000_001}))[0] == 400
