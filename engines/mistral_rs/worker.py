"""mistral.rs in a process of its own: `python -m engines.mistral_rs.worker`.

The library computes on threads of its own and hands each answer out as a stream of text that waits for the next piece;
a thread for each answer reads it (`requests.ChunkReader`), and a step takes what has come. Prompts of a GGUF model are
given to it one after the other: of several at once its CPU kernels make an error, and each of them then has no answer.
Those of a folder are given to it as they come: what it begins together it computes together.
"""

import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines import worker_base
from engines.mistral_rs.gguf_template import read_gguf_template
from engines.mistral_rs.requests import (
    ChunkReader,
    NewsBox,
    ReaderNews,
    RunningAnswer,
    TokenizedPrompt,
    first_line,
    read_error,
    request_arguments,
)
from engines.serving.backend import (
    BackendAbility,
    Decoder,
    LoadResult,
    ProgressCallback,
    StepOutcome,
    WorkItem,
    share_time,
)
from engines.serving.server import serve_backend
from engines.serving.templates import read_template
from engines.serving.text import BytesDecoder

_PLAIN_TEMPLATE = "{%- for message in messages -%}{{- message['content'] -}}{%- endfor -%}"
"""Prompts come to the library whole: our own server has applied the model's template, within its limits."""
_UNBOUNDED_CONTEXT = 4096
"""Where neither a person nor the model says how long a conversation may be."""
_GATHER_S = 0.005
"""Answers of different lengths take turns in the library, which on a processor cost three quarters of its speed."""
_PART = re.compile(r"(?P<stem>.{1,240})-\d{5}-of-(?P<count>\d{5})\.gguf")


class MistralRsBackend:
    """`engines.serving.backend.WorkerBackend` on the library's `Runner`, whose methods are called on one thread."""

    def __init__(self) -> None:
        self._library: Any = None
        self._runner: Any = None
        self._lead: list[int] = []
        """What the library puts in front of every prompt."""
        self._lead_text = ""
        self._news = NewsBox()
        self._queue: deque[WorkItem] = deque()
        self._answers: dict[int, RunningAnswer] = {}
        self._readers: dict[int, ChunkReader] = {}
        self._resting_readers: list[ChunkReader] = []
        """Those that begin with the next step: beside a reader that runs, the next prompt would be given later."""
        self._opening_id: int | None = None
        """The request whose prompt was given last, and is being read."""
        self._reads_together = False
        """Whether prompts may be read at once."""

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model. Raises RuntimeError when the library refuses."""
        tell("Starting mistral.rs")
        os.environ.update(_library_environment(config))
        import mistralrs  # noqa: PLC0415 -- native code: the lifeline must hold before it loads

        tell("Reading weights")
        self._library = mistralrs
        path, slots = Path(str(config["model"])), int(str(config["slots"]))
        if not path.exists():
            raise RuntimeError(f"{path} was not found in local model directory")
        self._reads_together = path.is_dir()
        self._runner = self._make_runner(path, slots, keeps_prompts=bool(config["prefix_cache"]))
        self._lead = list(self._runner.tokenize_text("", True, None))  # noqa: FBT003 -- the library's own arguments
        self._lead_text = self._runner.detokenize_text(self._lead, False) if self._lead else ""  # noqa: FBT003 -- as above
        template, specials = read_template(path) if path.is_dir() else read_gguf_template(path)
        return LoadResult(
            context=_context_limit(config["context"], self._runner.max_sequence_length()),
            slots=slots,
            device=str(config["device"]),
            device_name=f"mistral.rs {config['device']}",
            abilities=frozenset(BackendAbility),
            chat_template=template,
            specials=specials,
            gather_s=_GATHER_S if self._reads_together else 0.0,
        )

    def encode(self, text: str, *, adds_special: bool) -> TokenizedPrompt:
        """Return a text's tokens."""
        tokens = list(self._runner.tokenize_text(text, adds_special, None)) if text or adds_special else []
        return TokenizedPrompt(tokens, text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._runner.detokenize_text(list(tokens), True)) if tokens else ""  # noqa: FBT003 -- as in `load`

    def make_decoder(self) -> Decoder:
        """Return a decoder that nobody asks: the library tells text."""
        return BytesDecoder(lambda _token: b"")

    def start(self, work: WorkItem) -> None:
        """Take on a request; its prompt is read at once, or once those before it are."""
        self._answers[work.id] = RunningAnswer(work)
        self._queue.append(work)
        self._open_next()

    def step(self) -> Iterable[StepOutcome]:
        """Wait for what the library has written, and return all of it: first words and ends at once."""
        self._start_readers()
        for news in self._news.take_all(share_time(len(self._answers))):
            yield from self._read_news(news)

    def cancel(self, work: int) -> None:
        """Let go of a request. One whose prompt is being read goes on until it is read."""
        self._answers.pop(work, None)
        self._queue = deque(waiting_request for waiting_request in self._queue if waiting_request.id != work)
        if work in self._readers:
            self._readers[work].cancel()
        self._start_readers()  # one that rests would keep what it reads alive, with nobody left to step for

    def cache_use(self) -> float | None:
        """Return None: each answer has a cache of its own, which grows with it."""
        return None

    def _make_runner(self, path: Path, slots: int, *, keeps_prompts: bool) -> Any:  # noqa: ANN401 -- the wheel's own type
        which = self._library.Which
        with tempfile.TemporaryDirectory() as folder:
            template = Path(folder) / "prompt.jinja"
            template.write_text(_PLAIN_TEMPLATE, encoding="utf-8")
            try:
                return self._library.Runner(
                    which=which.Plain(model_id=str(path)) if path.is_dir() else self._gguf(path, Path(folder)),
                    max_seqs=slots,
                    prefix_cache_n=slots if keeps_prompts else 0,
                    token_source="none",  # noqa: S106 -- the library's word for asking the hub for nothing
                    jinja_explicit=str(template),
                    no_paged_attn=True,  # it would take most of a Mac's memory at once, whatever the plan says
                )
            except ValueError as error:
                raise RuntimeError(first_line(error)) from error

    def _gguf(self, path: Path, own: Path) -> Any:  # noqa: ANN401 -- the wheel's own type
        """Return how a GGUF model is named: by files in a folder that the library may list.

        A confined engine may read the model's files, and nothing beside them, so it gets links in a folder of its own.
        Windows confines none, and links are not for everybody there.
        """
        parts = _parts_of(path)
        if sys.platform != "win32":
            for part in parts:
                (own / part.name).symlink_to(part)
        folder = path.parent if sys.platform == "win32" else own
        names = [part.name for part in parts]
        return self._library.Which.GGUF(quantized_model_id=str(folder), quantized_filename=names)

    def _open_next(self) -> None:
        """Hand the next prompt to the library, unless it reads another that has to be read alone."""
        if not self._queue or (self._opening_id is not None and not self._reads_together):
            return
        work = self._queue.popleft()
        request = self._library.ChatCompletionRequest(**request_arguments(work, self._text_of(work.prompt)))
        self._opening_id = work.id
        stream = self._runner.send_chat_completion_request(request)
        self._readers[work.id] = ChunkReader(work.id, stream, self._news)
        self._resting_readers.append(self._readers[work.id])

    def _start_readers(self) -> None:
        for reader in self._resting_readers:
            reader.start()
        self._resting_readers.clear()

    def _text_of(self, prompt: Sequence[int]) -> str:
        """Return the text the library makes these tokens of; what it puts in front by itself is left out."""
        text = (
            prompt.text
            if isinstance(prompt, TokenizedPrompt)
            else str(self._runner.detokenize_text(list(prompt), False))  # noqa: FBT003 -- as in `load`
        )
        return text.removeprefix(self._lead_text)

    def _read_news(self, news: ReaderNews) -> Iterator[StepOutcome]:
        is_end = news.chunk is None and not news.error
        if is_end:
            self._readers.pop(news.work, None)
        if news.work == self._opening_id:
            self._opening_id = None
            self._open_next()
        answer = self._answers.get(news.work)
        if answer is None:
            return
        if news.error:
            yield StepOutcome(news.work, (), error=read_error(answer.work, news.error))
        elif is_end:  # without a finish: what was cancelled, or a library that ends its stream early
            yield StepOutcome(news.work, (), error=read_error(answer.work, "its answer ended early"))
        else:
            yield answer.read_chunk(news.chunk)


def _parts_of(path: Path) -> list[Path]:
    """Return all files of a GGUF model, of which the first is known."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    return [path.with_name(f"{match['stem']}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1)]


def _library_environment(config: Mapping[str, object]) -> dict[str, str]:
    """Return what the library is told by environment: to ask nobody for files, to log errors only, its threads."""
    names = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "RUST_LOG": "warn", **os.environ}
    return {**names, **({"RAYON_NUM_THREADS": str(config["threads"])} if config["threads"] else {})}


def _context_limit(requested_limit: object, made_for: int | None) -> int:
    """Return how many tokens a conversation may have: what was asked for, within what the model was made for."""
    if not requested_limit:
        return made_for or _UNBOUNDED_CONTEXT
    return min(int(str(requested_limit)), made_for or int(str(requested_limit)))


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(lambda launch: serve_backend(launch, MistralRsBackend))


if __name__ == "__main__":
    main()
