"""What a plan over several computers says of its engine: which it is, why no other, and what of it was tried."""

import pytest

from app.core.across import AcrossPlan, LayerShare
from app.gateway.across.spreading import _add_span_facts, _SpanEngine
from app.gateway.across.tunnel import NodeOrder
from engines.registry import ADAPTERS

PLAN = AcrossPlan(
    model="m",
    context=4096,
    shares=[LayerShare(name=name, layers=4, needed_bytes=1, free_bytes=2) for name in ("here", "desk")],
    fits=True,
    sentence="m fits over 2 computers with 4,096 tokens of context.",
    reasons=["The computers work one after another."],
)


def plan_with(engine: str) -> AcrossPlan:
    """Return the plan as that engine would have it."""
    about = ADAPTERS[engine].descriptor
    assert about.span is not None
    order = None if engine == "llama.cpp" else NodeOrder(engine=engine, model="m", digest="0")
    return _add_span_facts(PLAN, _SpanEngine(about.id, about.name, about.span, order))


def test_of_a_gguf_file_it_says_that_the_others_need_no_copy() -> None:
    first, *_ = plan_with("llama.cpp").reasons
    assert first.startswith("It runs on llama.cpp, by its RPC backend")
    assert "need no copy" in first


@pytest.mark.parametrize(
    ("engine", "name", "was_tried", "is_started"),
    [
        ("vllm", "vLLM", "was loaded over two computers", True),
        ("sglang", "SGLang", "was never run over several computers", True),
        ("mlx-lm", "MLX-LM", "plans it and does not start it", False),
    ],
)
def test_of_a_folder_it_says_which_engine_why_not_llama_cpp_and_what_was_tried(
    engine: str,
    name: str,
    was_tried: str,
    is_started: bool,  # noqa: FBT001 -- a parameter of pytest's
) -> None:
    plan = plan_with(engine)
    first, *others = plan.reasons
    assert first.startswith(f"It runs on {name}")
    assert "llama.cpp's RPC, which needs no copies, takes GGUF files only" in first
    assert was_tried in others[-1]
    assert plan.is_started is is_started
