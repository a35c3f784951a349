"""A library's own loop, run in its environment: `library_loop.py LIBRARY MODEL THREADS`, of `LOOPS`.

Reads a number of streams and of tokens a line, writes a line of JSON for each: how many tokens a second all streams
had together, every token turned into text, and that read, as soon as it is there. The prompt is that of
`worker_against_loop.py`.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PROMPT = "<|im_start|>user\nwhat is vram?<|im_end|>\n<|im_start|>assistant\n"
SLOTS = 64
CONTEXT = 1024
_PAGED = 1280
"""What a cache of pages of 256 tokens has for as many and one more."""
Run = Callable[[int, int], int]
"""What writes as many tokens in as many streams at once, and returns how many there were."""


def openvino(folder: str, threads: int) -> Run:
    """Return what runs streams with a continuous-batching pipeline, as its samples do."""
    import numpy as np  # noqa: PLC0415 -- each library is there in its own environment only
    import openvino_genai as genai  # noqa: PLC0415 -- as above
    from openvino import Tensor  # noqa: PLC0415 -- as above

    cache = genai.SchedulerConfig()
    cache.num_kv_blocks, cache.max_num_seqs, cache.enable_prefix_caching = SLOTS * 33, SLOTS, True
    pipeline = genai.ContinuousBatchingPipeline(folder, cache, "CPU", {"INFERENCE_NUM_THREADS": threads})
    tokenizer = pipeline.get_tokenizer()
    tokens = [int(token) for token in tokenizer.encode(PROMPT, add_special_tokens=False).input_ids.data[0]]
    settings = pipeline.get_config()
    settings.ignore_eos, settings.do_sample = True, False

    def run(streams: int, length: int) -> int:
        settings.max_new_tokens = length
        handles = [
            pipeline.add_request(number, Tensor(np.array([tokens], dtype=np.int64)), settings)
            for number in range(streams)
        ]
        texts = [genai.TextStreamer(tokenizer, lambda _text: genai.StreamingStatus.RUNNING) for _ in handles]
        written_tokens = 0
        while pipeline.has_non_finished_requests():
            pipeline.step()
            for handle, text in zip(handles, texts, strict=True):
                if handle.can_read():
                    for output in handle.read().values():
                        text.write(output.generated_ids)
                        written_tokens += len(output.generated_ids)
        return written_tokens

    return run


def onnx(folder: str, threads: int) -> Run:
    """Return what runs streams with a generator each, in turns, as its samples do."""
    import onnxruntime_genai as genai  # noqa: PLC0415 -- as above

    config = genai.Config(folder)
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
    model = genai.Model(config)
    tokenizer = genai.Tokenizer(model)
    tokens = tokenizer.encode(PROMPT)

    def begin(length: int) -> tuple[Any, Any]:
        parameters = genai.GeneratorParams(model)
        total = len(tokens) + length
        parameters.set_search_options(max_length=total, min_length=total, do_sample=False)
        generator = genai.Generator(model, parameters)
        generator.append_tokens(tokens)
        return generator, tokenizer.create_stream()

    def run(streams: int, length: int) -> int:
        sequences, written_tokens = [begin(length) for _ in range(streams)], 0
        while sequences:
            for each in list(sequences):
                generator, text = each
                generator.generate_next_token()
                text.decode(generator.get_next_tokens()[0])
                written_tokens += 1
                if generator.is_done():
                    sequences.remove(each)
        return written_tokens

    return run


def llama_cpp_python(file: str, threads: int) -> Run:
    """Return what runs streams one after the other, which is all the library's own generator can.

    With flash attention, which llama.cpp would choose here if it were asked, and the library's default is not.
    """
    import llama_cpp  # noqa: PLC0415 -- as above

    model = llama_cpp.Llama(
        file, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False, flash_attn=True
    )
    tokens = model.tokenize(PROMPT.encode(), add_bos=False, special=True)

    def run(streams: int, length: int) -> int:
        for _ in range(streams):
            for number, token in enumerate(model.generate(tokens, temp=0.0), 1):
                model.detokenize([token])
                if number == length:
                    break
        return streams * length

    return run


def mistral_rs(folder: str, threads: int) -> Run:
    """Return what runs streams with a thread each, which is how the library's own streams are read side by side."""
    os.environ.update({"RAYON_NUM_THREADS": str(threads), "RUST_LOG": "error", "HF_HUB_OFFLINE": "1"})
    import mistralrs  # noqa: PLC0415 -- as above

    with tempfile.TemporaryDirectory() as own:
        plain = Path(own) / "plain.jinja"
        plain.write_text("{{ messages[0]['content'] }}")
        which = mistralrs.Which.Plain(model_id=folder)
        runner = mistralrs.Runner(
            which=which,
            max_seqs=SLOTS,
            prefix_cache_n=SLOTS,  # as many as our worker keeps
            token_source="none",
            jinja_explicit=str(plain),
            no_paged_attn=True,
        )

    def read(stream: Any) -> int:  # noqa: ANN401 -- the library's own type
        for chunk in stream:
            _ = chunk.choices[0].delta.content
            if chunk.usage is not None:
                return int(chunk.usage.completion_tokens)
        return 0

    def run(streams: int, length: int) -> int:
        request = mistralrs.ChatCompletionRequest(
            messages=PROMPT, model="default", stream=True, max_tokens=length, ignore_eos=True, temperature=0.0
        )
        with ThreadPoolExecutor(streams) as pool:
            return sum(pool.map(read, [runner.send_chat_completion_request(request) for _ in range(streams)]))

    return run


def mlx(folder: str, _threads: int) -> Run:
    """Return what runs streams with the generator of batches that the library's own server steps.

    That server has no other way to write on after an end than to make ends unlikely, so both are asked for that.
    """
    from mlx_lm import load  # noqa: PLC0415 -- as above
    from mlx_lm.generate import BatchGenerator  # noqa: PLC0415 -- as above
    from mlx_lm.sample_utils import make_logits_processors  # noqa: PLC0415 -- as above

    model, tokenizer = load(folder)
    processors = make_logits_processors(logit_bias=dict.fromkeys(tokenizer.eos_token_ids, -100.0))
    tokens = tokenizer.encode(PROMPT, add_special_tokens=False)

    def run(streams: int, length: int) -> int:
        generator = BatchGenerator(model, max_tokens=length, completion_batch_size=SLOTS)
        uids = generator.insert([tokens] * streams, logits_processors=[processors] * streams)
        texts = {uid: tokenizer.detokenizer for uid in uids}  # noqa: C420 -- each access makes another
        streams_left, written_tokens = streams, 0
        while streams_left:
            for answer in generator.next_generated():
                texts[answer.uid].add_token(answer.token)
                _ = texts[answer.uid].last_segment
                written_tokens += 1
                streams_left -= answer.finish_reason is not None
        generator.close()
        return written_tokens

    return run


def exllamav3(folder: str, _threads: int) -> Run:
    """Return what runs streams with the generator of batches that is made for it."""
    from exllamav3 import Cache, ComboSampler, Config, Generator, Job, Model, Tokenizer  # noqa: PLC0415 -- as above

    settings = Config.from_directory(folder)
    model = Model.from_config(settings)
    cache = Cache(model, max_num_tokens=SLOTS * _PAGED, max_batch_size=SLOTS)
    model.load(max_batch_size=SLOTS)
    tokenizer = Tokenizer.from_config(settings)
    generator = Generator(model=model, cache=cache, tokenizer=tokenizer, max_batch_size=SLOTS)
    tokens = tokenizer.encode(PROMPT, encode_special_tokens=True)

    def job(length: int) -> Any:  # noqa: ANN401 -- the library's own type
        sampler = ComboSampler(temperature=0.0)
        return Job(input_ids=tokens, max_new_tokens=length, sampler=sampler, stop_conditions=[])

    return lambda streams, length: _iterate(generator, [job(length) for _ in range(streams)])


def exllamav2(folder: str, _threads: int) -> Run:
    """Return what runs streams with its dynamic generator, with the attention over pages that our worker gives it."""
    import torch  # noqa: PLC0415 -- as above

    from engines.exllama.paged_attention import provide_paged_attention  # noqa: PLC0415 -- as above

    provide_paged_attention(torch)
    import exllamav2 as exl  # noqa: PLC0415 -- as above
    from exllamav2 import generator as parts  # noqa: PLC0415 -- as above

    settings = exl.ExLlamaV2Config(folder)
    settings.arch_compat_overrides()
    settings.max_seq_len = _PAGED
    model = exl.ExLlamaV2(settings)
    cache = exl.ExLlamaV2Cache(model, max_seq_len=SLOTS * _PAGED, lazy=True)
    model.load_autosplit(cache)
    tokenizer = exl.ExLlamaV2Tokenizer(settings)
    generator = parts.ExLlamaV2DynamicGenerator(model=model, cache=cache, tokenizer=tokenizer, max_batch_size=SLOTS)
    tokens = tokenizer.encode(PROMPT, encode_special_tokens=True)

    def job(length: int) -> Any:  # noqa: ANN401 -- the library's own type
        greedy = parts.ExLlamaV2Sampler.Settings.greedy()
        return parts.ExLlamaV2DynamicJob(input_ids=tokens, max_new_tokens=length, gen_settings=greedy)

    return lambda streams, length: _iterate(generator, [job(length) for _ in range(streams)])


def _iterate(generator: Any, jobs: list[Any]) -> int:  # noqa: ANN401 -- either library's own type
    for job in jobs:
        generator.enqueue(job)
    token_count = 0
    while generator.num_remaining_jobs():
        for result in generator.iterate():
            if result["stage"] == "streaming":
                _ = result.get("text")
                token_count += 0 if result.get("token_ids") is None else result["token_ids"].shape[-1]
    return token_count


LOOPS = {
    "openvino": openvino,
    "onnx": onnx,
    "llama_cpp_python": llama_cpp_python,
    "mistral_rs": mistral_rs,
    "mlx": mlx,
    "exllamav3": exllamav3,
    "exllamav2": exllamav2,
}


def tell(**figures: float) -> None:
    """Write one line."""
    sys.stdout.write(f"{json.dumps(figures)}\n")
    sys.stdout.flush()


def main() -> None:
    """Load, then run as many streams with as many tokens as each line says."""
    began = time.perf_counter()
    run = LOOPS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    tell(load_s=time.perf_counter() - began)
    for line in sys.stdin:
        began = time.perf_counter()
        streams, length = line.split()
        written_tokens = run(int(streams), int(length))
        tell(tokens_per_s=written_tokens / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
