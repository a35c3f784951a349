"""PyTorch that takes a processor for a card: what is made on "cuda" lies in system memory and is computed there."""

import contextlib
import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

NAME = "Stand-in for a card"
_BYTES = 8 << 30
_MAKERS = (
    *("arange", "as_tensor", "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "linspace", "ones"),
    *("ones_like", "rand", "randint", "randn", "tensor", "zeros", "zeros_like"),
)
_METHODS = ("new_empty", "new_full", "new_tensor", "new_zeros", "to", "type")


def pretend_card() -> None:
    """Put the processor in the place of one card."""
    for name in _MAKERS:
        setattr(torch, name, _on_processor(getattr(torch, name)))
    for name in _METHODS:
        setattr(torch.Tensor, name, _on_processor(getattr(torch.Tensor, name)))
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor  # type: ignore[method-assign,assignment]  # as above
    torch.Tensor.pin_memory = lambda tensor, *_, **__: tensor  # type: ignore[method-assign,assignment]  # as above
    torch.Tensor.is_pinned = lambda *_, **__: False  # type: ignore[method-assign,assignment]  # as above
    torch.nn.Module.cuda = lambda module, *_, **__: module  # type: ignore[method-assign,assignment]  # as above
    torch._C._cuda_hasPrimaryContext = lambda _index: False
    for name, stand_in in {**_CLASSES, **{name: _always(answer) for name, answer in _ANSWERS.items()}}.items():
        setattr(torch.cuda, name, stand_in)


def pass_as_compiled(name: str) -> None:
    """Have a module of this folder look like an extension that was compiled: a library asks where it comes from."""
    module = importlib.import_module(name)
    spec = importlib.machinery.ModuleSpec(name, module.__loader__)
    spec.origin = f"{module.__file__}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    sys.modules[name].__spec__ = spec


def _on_processor(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        keywords.pop("pin_memory", None)
        cpu_keywords = {name: _processor(value, name) for name, value in keywords.items()}
        return function(*map(_processor, arguments), **cpu_keywords)

    return call


def _processor(argument: Any, name: str = "") -> Any:
    """Return the processor in the place of a card, which may be called by its number, and anything else as it is."""
    is_card = isinstance(argument, torch.device) and argument.type == "cuda"
    is_name = isinstance(argument, str) and argument.startswith("cuda")
    return "cpu" if is_card or is_name or (name == "device" and isinstance(argument, int)) else argument


class _Moment:
    cuda_stream = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Wait for nothing: all is computed when it is asked for."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: True


class _Stream(_Moment):
    pass


class _Event(_Moment):
    pass


class _Chosen(contextlib.nullcontext[None]):
    def __init__(self, *_: object) -> None:
        super().__init__()


_PROPERTIES = SimpleNamespace(
    name=NAME,
    total_memory=_BYTES,
    is_integrated=0,
    major=8,
    minor=6,
    multi_processor_count=1,
    shared_memory_per_block_optin=96 << 10,
)
_ANSWERS: dict[str, object] = {
    "current_device": 0,
    "device_count": 1,
    "empty_cache": None,
    "get_arch_list": ["sm_86"],
    "get_device_capability": (8, 6),
    "get_device_name": NAME,
    "get_device_properties": _PROPERTIES,
    "init": None,
    "is_available": True,
    "max_memory_allocated": 0,
    "mem_get_info": (_BYTES, _BYTES),
    "memory_allocated": 0,
    "memory_reserved": 0,
    "memory_stats": {},
    "reset_peak_memory_stats": None,
    "set_device": None,
    "set_per_process_memory_fraction": None,
    "set_stream": None,
    "synchronize": None,
}
"""What `torch.cuda` is asked, and says."""
_CLASSES: dict[str, Any] = {
    "Stream": _Stream,
    "Event": _Event,
    "current_stream": lambda *_: _Stream(),
    "default_stream": lambda *_: _Stream(),
    "device": _Chosen,
    "stream": lambda *_: _Chosen(),
}


def _always(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer
