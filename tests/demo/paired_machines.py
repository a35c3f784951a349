"""Paired computers: one that answers with two models, one that sleeps."""

from msgspec.structs import replace

from app.core.across import AcrossPlan, LayerShare, MachineMemory
from app.core.machines import MachineCode, MachineList, MachineStanding, ModelLoad, NearbyMachine

DESK = MachineStanding(
    name="desk",
    fingerprint="70cd0aadd32af7726f1c0d7e9b2a4c5570cd0aadd32af7726f1c0d7e9b2a4c55",
    host="192.168.1.7",
    port=11643,
    mac="02:fc:00:00:00:01",
    paired_at=1_795_600_000.0,
    is_reachable=True,
    is_lender=True,
    shares_files=True,
    models=[
        ModelLoad(name="qwen3-30b-a3b@desk", is_loaded=True, in_flight=2, slots=4, tokens_per_s=118.4),
        ModelLoad(name="gpt-oss-20b-mxfp4@desk", load_s=6.5),
    ],
)
BOX = MachineStanding(
    name="box",
    fingerprint="b83e01c4f95d6a20b83e01c4f95d6a20b83e01c4f95d6a20b83e01c4f95d6a20",
    host="192.168.1.22",
    port=11643,
    mac="02:fc:00:00:00:02",
    paired_at=1_795_610_000.0,
    is_reachable=False,
    problem="It did not answer in time.",
)
DEN = NearbyMachine(
    name="den",
    fingerprint="5d0f77b2c94e18a35d0f77b2c94e18a35d0f77b2c94e18a35d0f77b2c94e18a3",
    host="192.168.1.31",
    port=11643,
)
LISTED = MachineList(
    name="laptop",
    fingerprint="3f91c2d84be0a6753f91c2d84be0a6753f91c2d84be0a6753f91c2d84be0a675",
    port=11643,
    machines=[BOX, DESK],
    nearby=[DEN],
)
GIB = 1 << 30
LENDERS = [
    MachineMemory(
        name="box",
        address="192.168.1.22:11643",
        problem="box (192.168.1.22:11643) does not answer.",
        hint="It may be asleep or switched off. `roundhouse machines wake box` wakes it.",
        is_away=True,
    ),
    MachineMemory(
        name="desk",
        address="192.168.1.7:11643",
        free_bytes=22 * GIB,
        bandwidth_gb_s=68.0,
        version="0.3.36",
        latency_ms=0.42,
        link_mb_s=112.0,
    ),
]
SPREAD = AcrossPlan(
    model="qwen3-30b-a3b",
    context=16384,
    shares=[
        LayerShare(
            name="here",
            layers=20,
            needed_bytes=8 * GIB,
            free_bytes=11 * GIB,
            token_ms=31.2,
            arithmetic="1.35 GB / (0.85 x 52 GB/s) + 20 x 115 µs",
        ),
        LayerShare(
            name="desk",
            first_layer=20,
            layers=28,
            needed_bytes=12 * GIB,
            free_bytes=22 * GIB,
            token_ms=34.9,
            arithmetic="1.87 GB / (0.85 x 68 GB/s) + 28 x 115 µs + 2 x 0.42 ms + 16.4 kB / 112 MB/s",
            latency_ms=0.42,
            link_mb_s=112.0,
        ),
    ],
    fits=True,
    sentence="qwen3-30b-a3b fits over 2 computers with 16,384 tokens of context.",
    reasons=[
        (
            "It runs on llama.cpp, by its RPC backend: the other computers hold layers and need no copy of the model. "
            "One request is answered at a time."
        ),
        "The computers work one after another, so the layers of each add their time to every token.",
        "About 15 tok/s, computed from memory, the link and the software; not measured.",
    ],
    tokens_per_second=15.1,
)
VLLM_SPREAD = replace(
    SPREAD,
    engine="vllm",
    engine_name="vLLM",
    slots=4,
    reasons=[
        (
            "It runs on vLLM, with a process and a copy of the model on each computer. llama.cpp's RPC, which needs no "
            "copies, takes GGUF files only, which this model is not."
        ),
        *SPREAD.reasons[1:],
        "For one request each computer waits while the others compute; with several requests all of them compute.",
        "vLLM was loaded over two computers with a tiny model on processors, and answered; never with GPUs.",
    ],
)
"""The same for a folder of weights."""
CODE = MachineCode(code="5865-6106", seconds=300.0)


def machine_replies() -> dict[str, object]:
    """Return what the gateway answers about them."""
    return {
        "GET /machines": LISTED,
        "POST /machines": DESK,
        "POST /machines/code": CODE,
        "DELETE /machines/code": None,
        "POST /machines/wake": None,
        "DELETE /machines/box": None,
        "PATCH /machines/desk": replace(DESK, lends_memory=True),
        "GET /machines/memory": LENDERS,
        "POST /plan/across": SPREAD,
    }
