"""`options`: each with its type. Nulls are as good as absent, and unknown names are passed over, as Ollama does.

What only changes how a model is loaded (threads, layers, batches) is the gateway's to choose here; it is taken without
complaint, has no effect, and is named in `unheeded` so that the log can say so.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import Sampling
from app.gateway.dialects.raw_fields import value_of

_Reader = Callable[[object], Any]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What of the options has an effect, and the names of those that have none."""

    sampling: Sampling = Sampling()
    num_ctx: int | None = None
    num_predict: int | None = None
    """None for as many tokens as it takes."""
    stops: tuple[str, ...] = ()
    unheeded: tuple[str, ...] = ()


def read_options(fields: Mapping[str, msgspec.Raw] | None) -> Options:
    """Return the options. Raises BadRequest for a value of the wrong type."""
    given = {name: value_of(raw) for name, raw in (fields or {}).items()}
    values = {name: value for name, value in given.items() if value is not None}
    for name in values.keys() & _LOADERS.keys():
        _checked(name, values[name], _LOADERS[name])
    read = {name: _read(name, values[name]) for name in values if name in _READERS}
    sampling = {name: value for name, value in read.items() if name in _SAMPLING}
    limit, context = read.get("num_predict"), read.get("num_ctx")
    return Options(
        sampling=Sampling(**sampling),
        num_ctx=context if context is not None and context > 0 else None,
        num_predict=limit if limit is not None and limit > 0 else None,
        stops=read.get("stop", ()),
        unheeded=tuple(sorted(name for name in values if name not in _READERS)),
    )


def kept_parameters(fields: Mapping[str, msgspec.Raw] | None) -> dict[str, bool | int | float | str | list[str]]:
    """Return the options that a made model keeps: those that have an effect, each of its type. Raises BadRequest."""
    given = {name: value_of(raw) for name, raw in (fields or {}).items()}
    read = {name: _read(name, value) for name, value in given.items() if value is not None and name in _READERS}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in read.items() if value is not None
    }


def _read(name: str, value: object) -> Any:  # noqa: ANN401 -- each option has a type of its own
    return _checked(name, value, _READERS[name])


def _checked(name: str, value: object, reads: tuple[_Reader, str]) -> Any:  # noqa: ANN401 -- as above
    reader, kind = reads
    try:
        return reader(value)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(f'option "{name}" must be of type {kind}', code="invalid_value") from None


def _whole(value: object) -> int:
    """Return an integer; JSON's 5.0 is one too, and Go cuts off what follows the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _seed(value: object) -> int | None:
    """Return the seed; a negative one means a new one each time."""
    seed = _whole(value)
    return None if seed < 0 else seed


def _look_back(value: object) -> int:
    count = _whole(value)
    if count < -1:
        raise BadRequest('option "repeat_last_n" must be -1 (the whole context) or more', code="invalid_value")
    return count


def _penalty(value: object) -> float:
    penalty = _number(value)
    if penalty <= 0:
        raise BadRequest('option "repeat_penalty" must be more than 0', code="invalid_value")
    return penalty


def _texts(value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TypeError
    return tuple(text for text in found if text)


_READERS: dict[str, tuple[_Reader, str]] = {
    "num_ctx": (_whole, "integer"),
    "num_predict": (_whole, "integer"),
    "stop": (_texts, "array"),
    "seed": (_seed, "integer"),
    "temperature": (_number, "float32"),
    "top_k": (_whole, "integer"),
    "top_p": (_number, "float32"),
    "min_p": (_number, "float32"),
    "typical_p": (_number, "float32"),
    "repeat_last_n": (_look_back, "integer"),
    "repeat_penalty": (_penalty, "float32"),
    "presence_penalty": (_number, "float32"),
    "frequency_penalty": (_number, "float32"),
}
_LOADERS: dict[str, tuple[_Reader, str]] = {
    "use_mmap": (_flag, "boolean"),
    **dict.fromkeys(
        ("num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "draft_num_predict"), (_whole, "integer")
    ),
}
"""Options without effect here that Ollama refuses all the same where their type is wrong."""
_SAMPLING = frozenset(_READERS) - {"num_ctx", "num_predict", "stop"}
