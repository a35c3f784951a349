"""Chat templates: programs that come with a model nobody vouched for, run in Jinja's sandbox with limits.

A rendering may last so long and write so much; what a template may do at all is the matter of `sandbox`.
"""

import ctypes
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engines.serving.answer_request import TemplateInput
from engines.serving.refusals import RequestRefused, invalid_request

LIMIT_S = 2.0


class _TooSlow(BaseException):
    """Thrown into the thread of a rendering that lasts too long."""


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

        from engines.serving.sandbox import make_environment  # noqa: PLC0415 -- as above

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
            "add_generation_prompt": True,
        }
        try:
            return _TemplateRun(lambda: self._render_bounded(names)).run_within(limit_s)
        except _TooSlow:
            raise _template_error(f"it takes longer than {limit_s:g} seconds") from None
        except Exception as error:  # noqa: BLE001 -- a template can raise anything; it is the client's answer
            raise _template_error(str(error) or type(error).__name__) from None

    def _render_bounded(self, names: Mapping[str, object]) -> str:
        from engines.serving.sandbox import MOST_CHARS  # noqa: PLC0415 -- as above

        pieces, chars = [], 0
        for piece in self._template.generate(names):
            chars += len(piece)
            if chars > MOST_CHARS:
                raise ValueError(f"it writes more than {MOST_CHARS} characters")
            pieces.append(piece)
        return "".join(pieces)


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
