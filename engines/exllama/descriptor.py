"""What ExLlamaV3 and ExLlamaV2 are and can do, behind our server. From the wheels of 1.6.5 and 0.3.2."""

import msgspec

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.support import NameKind, NameSource
from engines.exllama.traits import EXL2 as EXL2_TRAITS
from engines.exllama.traits import EXL3 as EXL3_TRAITS
from engines.worker_adapter import METRICS, METRICS_PATH, PREFILL_FIELDS

COMPILED_AT_FIRST = (
    "Not run on another card than this one. The kernels are compiled when it first starts, which takes a C++ compiler "
    "and minutes (many on few cores), and PyTorch asks for driver 580."
)
NOT_POSSIBLE = (
    "Several cards, drafts, adapters and the kinds of cache were tried against the stand-in only, which has the "
    "classes and arguments of this version; adapters are applied to every request, and not where matrices are cut over "
    "cards. Windows has a recipe of its own, with PyTorch from PyTorch's index and compiled kernels from the library's "
    "authors; it was never run, so that it is advised only where it is installed already."
)

EXL3 = Descriptor(
    id="exllamav3",
    name="ExLlamaV3",
    support=(
        NameSource(
            kind=NameKind.CLASS, package="exllamav3", files="architecture/*.py", pattern=r'^\s+arch_string = "(\w+)"'
        ),
    ),
    licence="MIT",
    homepage="https://github.com/turboderp-org/exllamav3",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.EXL3,),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.APPLY_TEMPLATE: "/apply-template",
    },
    features=frozenset(
        {
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.KV_QUANT,
            Feature.CONTINUOUS_BATCHING,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.SAMPLING_DEFAULTS,
            Feature.PREFILL,
            Feature.DRAFT,
            Feature.LORA,
            Feature.TENSOR_PARALLEL,
            Feature.VISION,
        }
    ),
    platforms=frozenset({"linux", "win32"}),
    accelerators=("cuda",),
    chooses_threads=True,
    prefill_fields=PREFILL_FIELDS,
    helped_with=frozenset({"cpu_moe_layers"}),
    metrics_path=METRICS_PATH,
    metrics=METRICS,
    verified=(
        "Run for real on an NVIDIA H100 in November 2026, with PyTorch 2.11 and 64 of its 194 kernel files, compiled "
        "there: the Guide answered as on a processor, one and eight requests at once, in 16 bits and as EXL3 of 4 bits "
        "made of it there by the converter; weights in the shape of a Llama 8B at 4 bits, with random trellises, were "
        "read, also confined by the application, and a prompt of 3,919 tokens, one and eight requests at once were "
        "answered from a 16-bit cache. "
        "Its install from the lock, on Linux x86-64, and its kernels there: all 194 files compiled by the compiler "
        "that comes along, linked and loaded. Its worker with the Python of exllamav3 1.6.5 and the Guide's weights on "
        "a processor, what is compiled for cards being stood in for by PyTorch: chats that answer as the Guide does on "
        "llama.cpp, batches, cancelling, limits, ends, seeds, penalties, prompts kept, JSON schemas by llguidance, log "
        "probabilities, a draft model, a cache of 8 bits. The rest against a stand-in for the library with the same "
        "classes."
    ),
    unverified=(
        f"{COMPILED_AT_FIRST} Of trained weights only the Guide's few million have been run on a card. "
        f"{NOT_POSSIBLE} Pictures are read with models of the architectures that it "
        "has a vision component for; no such component was ever loaded, here or on a card. Experts of the first layers "
        "can stay in system memory where the model was quantised with the codebook mul1, the converter's usual one; "
        "the library loads others whole. On Turing cards it reads prompts by kernels of its own: they and "
        "eight other files of its 194 were compiled for compute capability 7.5. It has code for AMD's RDNA cards too "
        "(32-wide wavefronts; none for Instinct), but the index has neither PyTorch for ROCm nor a build of it, so "
        "that it is not installed for them."
    ),
    traits=EXL3_TRAITS,
)

EXL2 = msgspec.structs.replace(
    EXL3,
    id="exllamav2",
    name="ExLlamaV2",
    homepage="https://github.com/turboderp-org/exllamav2",
    formats=(ModelFormat.EXL2,),
    modalities=frozenset({"text"}),
    features=EXL3.features - {Feature.VISION},
    helped_with=frozenset(),
    verified=(
        "Run for real on an NVIDIA H100 in November 2026, with PyTorch 2.11 and kernels compiled there: the Guide in "
        "16 bits answered as on a processor, one and eight requests at once. "
        "Its install from the lock, on Linux x86-64, and its kernels there: all 47 files compiled by the compiler that "
        "comes along, linked and loaded. Its worker with the Python of exllamav2 0.3.2 and the Guide's weights on a "
        "processor, what is compiled for cards being stood in for by PyTorch: chats that answer as the Guide does on "
        "llama.cpp, batches, cancelling, limits, ends, seeds, penalties, prompts kept, JSON schemas by llguidance, log "
        "probabilities, a draft model. The rest against a stand-in for the library with the same classes."
    ),
    unverified=(
        f"{COMPILED_AT_FIRST} Quantised weights have not been run on a card. {NOT_POSSIBLE} It is frozen since "
        "December 2025. flash-attn, which its install does not bring, is stood in for by PyTorch's own attention: "
        "compared with the plain computation on the processor, where it differed by rounding only."
    ),
    traits=EXL2_TRAITS,
)
