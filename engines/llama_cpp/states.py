"""Which launches of llama.cpp can write what their slots have read, and read it again in another run.

A file that is cut off or damaged ends the process: llama.cpp asserts what it reads (build b11549).
"""

from collections.abc import Callable

from engines.api import LaunchOptions, ListenOptions

_REASONS: tuple[tuple[Callable[[LaunchOptions], bool], str], ...] = (
    (lambda o: o.task != "chat", "Texts that are embedded or ranked leave nothing to go on with."),
    (lambda o: not o.prefix_cache, "The prompt cache of this model is switched off."),
    (lambda o: o.projector is not None, "llama.cpp does not write what a model has read that also sees or hears."),
    (lambda o: bool(o.lora), "What a model has read with LoRA adapters is not kept yet."),
    (
        lambda o: o.draft is not None and o.draft.kind != "ngram",
        "llama.cpp writes what a model has read, and not what its draft model has.",
    ),
)


def stateless_reason(options: LaunchOptions) -> str:
    """Return why a launch with these options cannot, in a sentence; empty if it can."""
    return next((sentence for applies, sentence in _REASONS if applies(options)), "")


def keeps_states(options: LaunchOptions, net: ListenOptions) -> bool:
    """Tell whether a launch writes states: somebody wants them, and it can."""
    return net.state_folder is not None and not stateless_reason(options)
