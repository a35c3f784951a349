"""Chat templates: programs that come with a model nobody vouched for, run in Jinja's sandbox with limits.

A rendering may last so long and write so much. The sandbox keeps a template from Python's internals and from long
ranges. Beyond it, numbers that repeat or widen text are small here, and texts that are added up have a limit. Joining
with `~` is bounded by the time a rendering has.
"""

import ctypes
import datetime as dt
import functools
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2.ext
import jinja2.sandbox

from engines.serving.answer_request import TemplateInput
from engines.serving.refusals import RequestRefused, invalid_request

LIMIT_S = 2.0


class _TooSlow(BaseException):
    """Thrown into the thread of a rendering that lasts too long."""


class TemplateLimit(ValueError):
    """A template wants more than it may have."""


@dataclass(slots=True)
class _TemplateRun:
    """One run of a template on a thread of its own, which can be stopped."""

    render: Callable[[], str]
    text: str = ""
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def run_within(self, limit_s: float) -> str:
        """Return the text. Raises what the template raised, or _TooSlow."""
        self.thread = threading.Thread(target=self._run, name="template", daemon=True)
        self.thread.start()
        self.thread.join(limit_s)
        if self.thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(_TooSlow)
            )
            raise _TooSlow
        if self.error is not None:
            raise self.error
        return self.text

    def _run(self) -> None:
        try:
            self.text = self.render()
        except BaseException as error:  # noqa: BLE001 -- handed to the thread that waits
            self.error = error


class ChatTemplate:
    """A model's chat template. Compiled once; raises RuntimeError if it cannot be."""

    def __init__(self, text: str, specials: Mapping[str, str]) -> None:
        import jinja2  # noqa: PLC0415 -- the engine's environment has it; `worker_base` says by exit code when it lacks

        self._specials = specials
        try:
            self._template = make_environment().from_string(text)
        except jinja2.TemplateError as error:
            raise RuntimeError(f"chat template parsing error: {error}") from error

    def render(self, conversation: TemplateInput, limit_s: float = LIMIT_S) -> str:
        """Return the prompt. Raises Refused for what the template refuses or cannot do."""
        names: dict[str, object] = {
            **(conversation.arguments or {}),
            **self._specials,
            "messages": conversation.messages,
            "tools": conversation.tools or None,
            "documents": None,
            "add_generation_prompt": not conversation.continues,
        }
        try:
            text = _TemplateRun(lambda: self._render_bounded(names)).run_within(limit_s)
        except _TooSlow:
            raise _cost_error(f"it takes longer than {limit_s:g} seconds") from None
        except (TemplateLimit, MemoryError, OverflowError, RecursionError) as error:
            raise _cost_error(str(error) or "it takes too much memory") from None
        except Exception as error:  # noqa: BLE001 -- a template can raise anything; it is the client's answer
            raise _template_error(str(error) or type(error).__name__) from None
        return _cut_behind(text, str(conversation.messages[-1]["content"])) if conversation.continues else text

    def _render_bounded(self, names: Mapping[str, object]) -> str:

        pieces, chars = [], 0
        for piece in self._template.generate(names):
            chars += len(piece)
            if chars > MOST_CHARS:
                raise TemplateLimit(f"it writes more than {MOST_CHARS} characters")
            pieces.append(piece)
        return "".join(pieces)


def _cut_behind(text: str, words: str) -> str:
    """Return a prompt without what a template puts behind the last message, blanks at its end kept where it keeps them.

    Raises Refused where the template leaves the message out or changes it.
    """
    at = text.rfind(words.strip())
    if at < 0:
        raise _template_error("it does not show the answer that is gone on with")
    whole = words.lstrip()
    return text[: at + len(whole if text.startswith(whole, at) else words.strip())]


def read_template(folder: Path) -> tuple[str | None, dict[str, str]]:
    """Return the chat template a model folder holds, if it does, and the special tokens it may name."""
    config = object_in(folder / "tokenizer_config.json")
    specials = {name: _token(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    return _template_text(folder, config), specials


def _template_text(folder: Path, config: Mapping[str, object]) -> str | None:
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    template = config.get("chat_template") or object_in(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):  # several templates by name
        templates_by_name = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = templates_by_name.get("default")
    return template if isinstance(template, str) else None


def _token(token: object) -> str:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def object_in(path: Path) -> dict[str, object]:
    """Return the JSON object a file of a model holds; an empty one where there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _template_error(why: str) -> RequestRefused:
    return invalid_request(f"The chat template cannot be applied: {why}.", "messages", code="template_failed")


def _cost_error(why: str) -> RequestRefused:
    return invalid_request(f"The chat template cannot be applied: {why}.", "messages", code=TOO_COSTLY)


TOO_COSTLY = "template_too_costly"
MOST_CHARS = 16 * 1024 * 1024
MOST_REPEATS = 100_000
"""As many as Jinja's own limit for `range`."""
_LARGEST_POWER = 1000
_WIDE = re.compile(r"\d{6,}")
_WIDENING = ("center", "indent", "format", "wordwrap", "truncate")


class GenerationTag(jinja2.ext.Extension):
    """The tag `generation`, with which model makers mark what the model itself writes; it changes nothing here."""

    tags = frozenset({"generation"})  # type: ignore[assignment]  # Jinja declares a set, and only looks into it

    def parse(self, parser: Any) -> Any:  # noqa: ANN401 -- as Jinja calls it
        """Return what stands between the tags."""
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


class BoundedSandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox with small numbers."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def unsafe_undefined(self, obj: object, attribute: str) -> jinja2.Undefined:  # noqa: ARG002 -- as Jinja's
        """Refuse a template that reaches for Python's own objects: no engine should have it, not even in a sandbox."""
        raise TemplateLimit(f"it reaches for Python's own objects ({attribute})")

    def call_binop(self, context: Any, operator: str, left_operand: Any, right: Any) -> Any:  # noqa: ANN401 -- as Jinja's
        """Compute what the operator says, unless its result would be huge."""
        if operator == "**":
            _check_numbers((left_operand, right), _LARGEST_POWER)
        elif operator == "%" and isinstance(left_operand, str):
            _check_format(left_operand)
        elif operator in {"*", "+"}:
            _check_size(operator, left_operand, right)
        return super().call_binop(context, operator, left_operand, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- as Jinja's
        """Call a function or method, unless a number among its arguments is huge."""
        _check_numbers((*args, *kwargs.values()), MOST_REPEATS)
        formatted_text = getattr(
            getattr(obj, "__wrapped__", None), "__self__", None
        )  # "...".format, as the sandbox wraps it
        if isinstance(formatted_text, str):
            _check_format(formatted_text)
        return super().call(context, obj, *args, **kwargs)


def make_environment() -> BoundedSandbox:
    """Return what templates are compiled in, with the names that transformers gives them."""
    sandbox = BoundedSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, GenerationTag])
    for name in _WIDENING:
        sandbox.filters[name] = _limit_filter(sandbox.filters[name])
    sandbox.filters["tojson"] = _to_json
    sandbox.globals.update({"raise_exception": _raise_exception, "strftime_now": _strftime_now})
    sandbox.globals.pop("lipsum", None)
    return sandbox


def _limit_filter(wide: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wide)
    def call_checked(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 -- as the filter's
        _check_numbers((*args, *kwargs.values()), MOST_REPEATS)
        if wide.__name__ == "do_format" and args and isinstance(args[0], str):
            _check_format(args[0])
        return wide(*args, **kwargs)

    return call_checked


def _check_numbers(values: tuple[object, ...], most: int) -> None:
    if any(isinstance(value, int | float) and abs(value) > most for value in values):
        raise TemplateLimit("it reckons with a number this large")


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise TemplateLimit("it asks for text this wide")


def _check_size(operator: str, left_operand: object, right: object) -> None:
    sizes = [len(value) for value in (left_operand, right) if isinstance(value, str | list | tuple)]
    if not sizes:
        return
    numbers = [value for value in (left_operand, right) if isinstance(value, int)]
    size = sum(sizes) if operator == "+" else sizes[0] * max(numbers, default=0)
    if size > MOST_CHARS:
        raise TemplateLimit("it makes a text this long")


def _raise_exception(message: object) -> None:
    raise ValueError(str(message))


def _strftime_now(form: str) -> str:
    return dt.datetime.now().astimezone().strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 -- the filter's arguments, as model makers use them
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 -- as above
) -> str:
    """Write JSON as transformers' templates expect it: without HTML escapes."""
    _check_numbers((indent or 0,), MOST_REPEATS)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
