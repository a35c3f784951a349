"""What loading a model says when it is ready."""

from app.cli.engines import _ready_lines
from app.core.engines import AppliedRemedy, EngineState, EngineStatus


def test_what_was_changed_is_told_with_the_way_back_once_for_each_kind() -> None:
    remedies = [AppliedRemedy(kind="less_context", sentence=f"No room for {size}.") for size in (8192, 4096)]
    status = EngineStatus(
        model="m",
        engine="llama.cpp",
        backend="cpu",
        state=EngineState.READY,
        context=2048,
        load_seconds=2.0,
        notes=[engine.sentence for engine in remedies],
        mended=remedies,
    )
    assert list(_ready_lines(status)) == [
        "m is ready in 2.00 s: llama.cpp on cpu, context 2k.",
        "No room for 8192.",
        "No room for 4096.",
        "To turn this off: roundhouse settings engine.mend_less_context --reset",
    ]
