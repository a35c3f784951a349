"""llama-cpp-python in a process of its own: `python -m engines.llama_cpp_python.worker`.

Its own server answers one request at a time; this one keeps a sequence for each slot in one context and computes the
next token of all of them in one batch, through the package's low-level functions.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines import worker_base
from engines.llama_cpp.worker import decode_threads, thread_wait_policy
from engines.llama_cpp_python.sequences import Batch, SamplerFactory, Slot, choose_slot, token_with_alternatives
from engines.serving.backend import (
    BackendAbility,
    BackendFinish,
    Decoder,
    LoadResult,
    ProgressCallback,
    StepOutcome,
    Token,
    WorkItem,
)
from engines.serving.server import serve_backend
from engines.serving.text import BytesDecoder

BATCH_TOKENS = 512
"""What llama.cpp computes in one go unless told otherwise."""
_LONGEST_PIECE = 512
_TELL_EVERY = 0.05
"""llama.cpp tells its progress after each tensor."""
_FLASH = {None: -1, False: 0, True: 1}
_SPECIALS = ("bos", "eos")


_EXPERTS = r"blk\.{layer}\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""The tensors that llama.cpp's own `--n-cpu-moe` keeps in system memory."""


class _BufferOverride(ctypes.Structure):
    """`llama_model_tensor_buft_override`: where tensors lie whose names have a pattern."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


class LlamaCppPythonBackend:
    """`engines.serving.backend.WorkerBackend` on one context with a sequence for each slot."""

    def __init__(self) -> None:
        self._lib: Any = None
        self._context: Any = None
        self._vocabulary: Any = None
        self._samplers: SamplerFactory
        self._batch: Batch
        self._slots: list[Slot] = []
        self._progress_callback: Any = None
        self._placement: list[Any] = []
        """Arrays that llama.cpp reads while it loads, and holds no reference to."""
        self._keeps_prompts = True
        self._pieces: dict[int, bytes] = {}

    def load(self, config: Mapping[str, Any], tell: ProgressCallback) -> LoadResult:
        """Load the model. Raises RuntimeError when llama.cpp refuses; what it wrote names the cause."""
        tell("Starting llama.cpp")
        os.environ.update(thread_wait_policy(Path(str(config["model"]))) | dict(os.environ))
        import llama_cpp  # noqa: PLC0415 -- native code: the lifeline must hold before it loads

        self._lib = lib = llama_cpp
        lib.llama_backend_init()
        model = self._load_native_model(config, tell)
        self._vocabulary = lib.llama_model_get_vocab(model)
        tell("Preparing the context")
        slots = config["slots"]
        self._context = self._make_context(model, config, slots)
        self._samplers = SamplerFactory(lib, self._vocabulary)
        self._batch = Batch(lib, lib.llama_n_batch(self._context))
        self._slots = [Slot(number) for number in range(slots)]
        self._keeps_prompts = config["prefix_cache"]
        template = lib.llama_model_chat_template(model, None)
        return LoadResult(
            context=lib.llama_n_ctx_seq(self._context),
            slots=slots,
            device="GPU" if lib.llama_supports_gpu_offload() else "CPU",
            device_name=lib.llama_print_system_info().decode(errors="replace").strip(),
            abilities=frozenset(BackendAbility) - {BackendAbility.LOGIT_BIAS},
            chat_template=template.decode(errors="replace") if template else None,
            specials={f"{name}_token": self._special_token_text(name) for name in _SPECIALS},
        )

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens; special tokens in it count as such."""
        raw = text.encode()
        room = len(raw) + 8
        tokens = (self._lib.llama_token * room)()
        count = self._lib.llama_tokenize(self._vocabulary, raw, len(raw), tokens, room, adds_special, True)  # noqa: FBT003 -- ctypes
        return list(tokens[: max(0, count)])

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return b"".join(map(self._token_bytes, tokens)).decode("utf-8", "replace")

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""
        return BytesDecoder(self._token_bytes)

    def start(self, work: WorkItem) -> None:
        """Take on a request, in the slot that knows most of its prompt. Raises Refused for an impossible schema."""
        sampler = self._samplers.make_chain(work)
        slot = choose_slot(self._slots, work.prompt)
        memory = self._lib.llama_get_memory(self._context)
        same = slot.prefix_match_length(work.prompt) if self._keeps_prompts else 0
        if not self._lib.llama_memory_seq_rm(memory, slot.number, same, -1):
            same = 0  # a recurrent state cannot be cut
            self._lib.llama_memory_seq_rm(memory, slot.number, -1, -1)
        slot.begin(work, sampler, same)

    def step(self) -> Iterable[StepOutcome]:
        """Compute one batch: the next token of every answer, and as much of the prompts as fits beside them."""
        running_slots = [slot for slot in self._slots if slot.work is not None]
        self._batch.clear()
        for slot in sorted(running_slots, key=lambda slot: len(slot.ahead)):
            slot.add_to(self._batch)
        error = self._lib.llama_decode(self._context, self._batch.native)
        if error:
            raise RuntimeError(f"llama_decode failed with {error}")
        return [outcome for slot in running_slots if slot.output >= 0 for outcome in (self._sample_next(slot),)]

    def cancel(self, work: int) -> None:
        """Let go of a request; what it computed stays known to its slot."""
        for slot in self._slots:
            if slot.work is not None and slot.work.id == work:
                self._lib.llama_sampler_free(slot.sampler)
                slot.end()

    def cache_use(self) -> float | None:
        """Return the share of the context's cells that running requests use."""
        used_tokens = sum(len(slot.known_tokens) for slot in self._slots if slot.work is not None)
        return float(used_tokens / max(1, self._lib.llama_n_ctx(self._context)))

    def _sample_next(self, slot: Slot) -> StepOutcome:
        lib, work = self._lib, slot.work
        assert work is not None  # noqa: S101 -- only running slots have an output
        token = lib.llama_sampler_sample(slot.sampler, self._context, slot.output)
        cached_tokens = slot.take_cached()
        if lib.llama_vocab_is_eog(self._vocabulary, token) and not work.ignores_end:
            return StepOutcome(work.id, (), BackendFinish.STOP, cached_tokens)
        output_token = Token(token)
        if work.logprobs is not None:
            logits = lib.llama_get_logits_ith(self._context, slot.output)
            output_token = token_with_alternatives(
                token, logits, lib.llama_vocab_n_tokens(self._vocabulary), work.logprobs
            )
        slot.write(token)
        return StepOutcome(work.id, (output_token,), BackendFinish.LENGTH if slot.is_full else None, cached_tokens)

    def _load_native_model(self, config: Mapping[str, Any], tell: ProgressCallback) -> Any:  # noqa: ANN401 -- a pointer
        lib = self._lib
        if config["rpc_servers"]:
            tell("Connecting to the other machines")
            add_rpc_servers(config["rpc_servers"])
        parameters = lib.llama_model_default_params()
        if config["gpu_layers"] is not None:
            parameters.n_gpu_layers = config["gpu_layers"]
        self._place_weights(parameters, config)

        last_fraction = -1.0

        def on_progress(fraction: float, _data: object) -> bool:
            nonlocal last_fraction
            if fraction - last_fraction >= _TELL_EVERY or fraction == 1:
                last_fraction = fraction
                tell("Reading weights", round(fraction, 2))
            return True

        parameters.progress_callback = self._progress_callback = lib.llama_progress_callback(
            on_progress
        )  # llama.cpp holds no reference
        model = lib.llama_model_load_from_file(str(config["model"]).encode(), parameters)
        if not model:
            raise RuntimeError(f"failed to load model, '{config['model']}'")
        return model

    def _place_weights(self, parameters: Any, config: Mapping[str, Any]) -> None:  # noqa: ANN401 -- a ctypes structure
        """Set each GPU's share of the layers, and of how many layers the experts stay in system memory."""
        lib = self._lib
        if config["split_ratio"]:
            shares = (ctypes.c_float * lib.llama_max_devices())(*config["split_ratio"])
            parameters.tensor_split = shares
            self._placement.append(shares)
        if config["cpu_moe_layers"]:
            overrides = (_BufferOverride * (config["cpu_moe_layers"] + 1))()  # the last one ends the list
            system_memory = _system_memory()
            for layer in range(config["cpu_moe_layers"]):
                overrides[layer] = _BufferOverride(_EXPERTS.format(layer=layer).encode(), system_memory)
            parameters.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
            self._placement.append(overrides)

    def _make_context(self, model: Any, config: Mapping[str, Any], slots: int) -> Any:  # noqa: ANN401 -- pointers
        lib = self._lib
        parameters = lib.llama_context_default_params()
        parameters.n_seq_max = slots
        parameters.n_ctx = (config["context"] or lib.llama_model_n_ctx_train(model)) * slots
        parameters.n_batch = max(config["batch"] or BATCH_TOKENS, slots)
        parameters.n_ubatch = max(parameters.n_ubatch, config["batch"] or 0)
        parameters.kv_unified = False
        parameters.flash_attn_type = _FLASH[config["flash_attention"]]
        if config["threads"]:
            parameters.n_threads = decode_threads(Path(str(config["model"])), config["threads"])
            parameters.n_threads_batch = config["threads"]
        if config["kv_type"]:
            parameters.type_k = parameters.type_v = getattr(lib, f"GGML_TYPE_{config['kv_type'].upper()}")
        context = lib.llama_init_from_model(model, parameters)
        if not context:
            raise RuntimeError("failed to create the context")
        return context

    def _token_bytes(self, token: int) -> bytes:
        known_bytes = self._pieces.get(token)
        if known_bytes is None:
            room = ctypes.create_string_buffer(_LONGEST_PIECE)
            size = self._lib.llama_token_to_piece(self._vocabulary, token, room, _LONGEST_PIECE, 0, False)  # noqa: FBT003 -- ctypes
            known_bytes = self._pieces[token] = room.raw[: max(0, size)]
        return known_bytes

    def _special_token_text(self, name: str) -> str:
        token = getattr(self._lib, f"llama_vocab_{name}")(self._vocabulary)
        text = self._lib.llama_vocab_get_text(self._vocabulary, token) if token >= 0 else b""
        return str(text.decode(errors="replace"))


def _system_memory() -> Any:  # noqa: ANN401 -- a pointer
    """Return what llama.cpp calls buffers in system memory; the package wraps no function for it."""
    from llama_cpp import _ggml  # noqa: PLC0415 -- as `llama_cpp` itself

    buffer_type = _ggml.libggml.ggml_backend_cpu_buffer_type
    buffer_type.restype = ctypes.c_void_p
    return buffer_type()


def add_rpc_servers(servers: Sequence[str]) -> None:
    """Have llama.cpp count what is behind these addresses among its devices. Raises RuntimeError if nobody answers."""
    from llama_cpp import _ggml  # noqa: PLC0415 -- as `llama_cpp` itself

    rpc = ctypes.CDLL(str(next(Path(_ggml.__file__).parent.glob("lib/*ggml-rpc.*"))))
    add = rpc.ggml_backend_rpc_add_server
    add.restype, add.argtypes = ctypes.c_void_p, (ctypes.c_char_p,)
    register = _ggml.libggml.ggml_backend_register
    register.restype, register.argtypes = None, (ctypes.c_void_p,)
    for server in servers:
        registry = add(server.encode())
        if not registry:
            raise RuntimeError(f"failed to connect to the RPC server {server}")
        register(registry)


def main() -> None:
    """Serve as the environment says; with `--devices`, list the devices as JSON and end."""
    if "--devices" in sys.argv[1:]:
        worker_base.emit("devices", names=[])
        return
    worker_base.run(lambda launch: serve_backend(launch, LlamaCppPythonBackend))


if __name__ == "__main__":
    main()
