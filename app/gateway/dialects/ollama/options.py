"""`options`: each with its type. Nulls are as good as absent, and unknown names are passed over, as Ollama does.

What only changes how a model is loaded (threads, layers, batches) is the gateway's to choose here; it is taken without
complaint, has no effect, and is named in `names_without_effect` so that the log can say so.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import SamplingParams
from app.gateway.dialects.raw_fields import value_of

_Reader = Callable[[object], Any]


class OllamaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What of the options has an effect, and the names of those that have none."""

    sampling: SamplingParams = SamplingParams()
    num_ctx: int | None = None
    num_predict: int | None = None
    """None for as many tokens as it takes."""
    stops: tuple[str, ...] = ()
    names_without_effect: tuple[str, ...] = ()


def read_options(fields: Mapping[str, msgspec.Raw] | None) -> OllamaOptions:
    """Return the options. Raises BadRequest for a value of the wrong type."""
    raw_values = {name: value_of(raw) for name, raw in (fields or {}).items()}
    values = {name: value for name, value in raw_values.items() if value is not None}
    for name in values.keys() & _LOAD_OPTIONS.keys():
        _check_option(name, values[name], _LOAD_OPTIONS[name])
    options = {name: _read_option(name, values[name]) for name in values if name in _READERS}
    sampling = {name: value for name, value in options.items() if name in _SAMPLING}
    limit, context = options.get("num_predict"), options.get("num_ctx")
    return OllamaOptions(
        sampling=SamplingParams(**sampling),
        num_ctx=context if context is not None and context > 0 else None,
        num_predict=limit if limit is not None and limit > 0 else None,
        stops=options.get("stop", ()),
        names_without_effect=tuple(sorted(name for name in values if name not in _READERS)),
    )


def parameters_to_keep(fields: Mapping[str, msgspec.Raw] | None) -> dict[str, bool | int | float | str | list[str]]:
    """Return the options that a made model keeps: those that have an effect, each of its type. Raises BadRequest."""
    raw_values = {name: value_of(raw) for name, raw in (fields or {}).items()}
    options = {
        name: _read_option(name, value) for name, value in raw_values.items() if value is not None and name in _READERS
    }
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value is not None
    }


def _read_option(name: str, value: object) -> Any:  # noqa: ANN401 -- each option has a type of its own
    return _check_option(name, value, _READERS[name])


def _check_option(name: str, value: object, reads: tuple[_Reader, str]) -> Any:  # noqa: ANN401 -- as above
    reader, kind = reads
    try:
        return reader(value)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(f'option "{name}" must be of type {kind}', code="invalid_value") from None


def _read_integer(value: object) -> int:
    """Return an integer; JSON's 5.0 is one too, and Go cuts off what follows the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return int(value)


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _read_seed(value: object) -> int | None:
    """Return the seed; a negative one means a new one each time."""
    seed = _read_integer(value)
    return None if seed < 0 else seed


def _look_back(value: object) -> int:
    count = _read_integer(value)
    if count < -1:
        raise BadRequest('option "repeat_last_n" must be -1 (the whole context) or more', code="invalid_value")
    return count


def _read_penalty(value: object) -> float:
    penalty = _read_number(value)
    if penalty <= 0:
        raise BadRequest('option "repeat_penalty" must be more than 0', code="invalid_value")
    return penalty


def _read_texts(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return tuple(text for text in texts if text)


_READERS: dict[str, tuple[_Reader, str]] = {
    "num_ctx": (_read_integer, "integer"),
    "num_predict": (_read_integer, "integer"),
    "stop": (_read_texts, "array"),
    "seed": (_read_seed, "integer"),
    "temperature": (_read_number, "float32"),
    "top_k": (_read_integer, "integer"),
    "top_p": (_read_number, "float32"),
    "min_p": (_read_number, "float32"),
    "typical_p": (_read_number, "float32"),
    "repeat_last_n": (_look_back, "integer"),
    "repeat_penalty": (_read_penalty, "float32"),
    "presence_penalty": (_read_number, "float32"),
    "frequency_penalty": (_read_number, "float32"),
}
_LOAD_OPTIONS: dict[str, tuple[_Reader, str]] = {
    "use_mmap": (_read_flag, "boolean"),
    **dict.fromkeys(
        ("num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "draft_num_predict"), (_read_integer, "integer")
    ),
}
"""Options without effect here that Ollama refuses all the same where their type is wrong."""
_SAMPLING = frozenset(_READERS) - {"num_ctx", "num_predict", "stop"}
