"""What the demo gateway has found on the hub, and what is on its way."""

from collections.abc import Mapping

import msgspec

from app.core.advice import EstimateConfidence, Rate
from app.core.downloads import Download, DownloadState
from app.core.errors import ErrorBody
from app.core.hub import (
    HubCard,
    HubCompanion,
    HubModel,
    HubPick,
    HubResults,
    HubSearchHit,
    HubTokenState,
    HubUse,
    HubVariant,
    TokenPlace,
)
from app.core.licences import commercial_use
from app.core.models import CompanionKind
from tests.demo.machines import GIB, NOON

_COMMIT = "7c41481f57cb95916b40956ab2f0b139b296d974"


def _make_rate(value: float) -> Rate:
    return Rate(tokens_per_second=value, low=value * 0.8, high=value * 1.25, confidence=EstimateConfidence.PREDICTED)


def _make_card(  # noqa: PLR0913, PLR0917 -- a line of a table
    base: str, size: float, gib: float, rate: float, formats: list[str], downloads: int, *, fits: bool = True
) -> HubCard:
    name = base.rpartition("/")[2]
    publishers = ["unsloth", "bartowski", "lmstudio-community", "mlx-community", "turboderp"]
    repositories = [
        HubSearchHit(
            repository=f"{publishers[at % len(publishers)]}/{name}-{kind.upper()}",
            formats=[kind],
            licence="apache-2.0",
            downloads=downloads // (at + 1),
            gated=base.startswith("google"),
        )
        for at, kind in enumerate(formats)
    ]
    return HubCard(
        base=base,
        title=name,
        repositories=repositories,
        parameters=round(size * 1e9),
        fits=fits,
        memory_bytes=round(gib * GIB),
        largest_context=40960 if fits else None,
        decode=_make_rate(rate),
        quantization="Q4_K_M",
        format=formats[0],
        engine_name="llama.cpp",
        basis=f"Estimated from the published shape of {name}.",
        downloads=downloads,
    )


CARDS = [
    _make_card("Qwen/Qwen3-8B", 8.2, 6.1, 38.0, ["gguf", "mlx", "awq", "exl3", "fp8"], 2_840_000),
    _make_card("Qwen/Qwen3-14B", 14.8, 10.4, 21.0, ["gguf", "mlx", "awq"], 1_120_000),
    _make_card("google/gemma-3-12b-it", 12.2, 9.2, 24.0, ["gguf", "mlx"], 903_000),
    _make_card("Qwen/Qwen3-30B-A3B", 30.5, 19.7, 46.0, ["gguf", "gptq"], 771_000, fits=False),
    _make_card("Qwen/Qwen3-4B", 4.0, 3.6, 71.0, ["gguf", "openvino", "onnx-genai"], 655_000),
    _make_card("Qwen/Qwen3-235B-A22B", 235.1, 143.0, 9.0, ["gguf", "fp8"], 210_000, fits=False),
]
LONG_CARD = _make_card(
    "a-publisher-with-an-unusually-long-name/An-Extraordinarily-Long-Model-Name-That-Nobody-Would-Type-70B-Instruct-v2",
    70.6,
    44.0,
    6.5,
    ["gguf", "mlx", "awq", "gptq", "exl2"],
    1200,
    fits=False,
)
RESULTS = HubResults(cards=CARDS, as_of=NOON, next="more")
GATED_RESULTS = HubResults(cards=CARDS[2:3], as_of=NOON)
OFFLINE_RESULTS = HubResults(
    cards=[*CARDS[:2], LONG_CARD],
    as_of=NOON,
    note="huggingface.co cannot be reached. This is the hub's answer from 2 h 10 min ago.",
)
_QUANTS = (
    ("Q8_0", 8.71, 9.9, 4096, 24.0, "As good as the original.", True),
    ("Q6_K", 6.73, 7.9, 16384, 29.0, "Hardly any loss.", True),
    ("Q5_K_M", 5.85, 7.0, 28672, 33.0, "Little loss.", True),
    ("Q4_K_M", 5.03, 6.1, 40960, 38.0, "The usual balance of size and quality.", True),
    ("Q3_K_M", 4.12, 5.2, 40960, 43.0, "Answers are visibly worse.", True),
    ("Q2_K", 3.28, 4.4, 40960, 50.0, "Answers are much worse: choose a smaller model instead if you can.", True),
)
MODEL = HubModel(
    repository="unsloth/Qwen3-8B-GGUF",
    revision="main",
    commit=_COMMIT,
    companions=[
        HubCompanion(kind=CompanionKind.DRAFT, path="Qwen3-0.6B-draft-Q8_0.gguf", size_bytes=640 << 20),
        HubCompanion(kind=CompanionKind.LORA, path="house-style-lora-f16.gguf", size_bytes=42 << 20, is_here=True),
    ],
    page="https://huggingface.co/unsloth/Qwen3-8B-GGUF",
    variants=[
        HubVariant(
            quantization="BF16",
            format="gguf",
            size_bytes=round(16.4e9),
            files=1,
            quality="As good as the original.",
            engine="llama.cpp",
            engine_name="llama.cpp",
            fits=False,
            reason="It needs 17.6 GiB, and 12.1 GiB are free.",
        ),
        *(
            HubVariant(
                quantization=label,
                format="gguf",
                size_bytes=round(gb * 1e9),
                files=1,
                quality=quality,
                engine="llama.cpp",
                engine_name="llama.cpp",
                fits=fits,
                memory_bytes=round(gib * GIB),
                largest_context=context,
                decode=_make_rate(rate),
                is_recommended=label == "Q5_K_M",
                reason="the best quality that leaves room for 28k of context." if label == "Q5_K_M" else "",
                is_here=label == "Q4_K_M",
            )
            for label, gb, gib, context, rate, quality, fits in _QUANTS
        ),
    ],
    architecture="qwen3",
    parameters=8_190_735_360,
    trained_context=40960,
    capabilities=["chat", "tools", "thinking"],
    licence="apache-2.0",
    likes=612,
    as_of=NOON,
)
GATED = HubModel(
    repository="google/gemma-3-12b-it",
    revision="main",
    commit=_COMMIT,
    page="https://huggingface.co/google/gemma-3-12b-it",
    variants=[HubVariant(quantization="", format="safetensors", size_bytes=round(24.4e9), files=5)],
    licence="gemma",
    gated=True,
    gate="Open https://huggingface.co/google/gemma-3-12b-it, sign in and accept its terms; then create a read token at "
    "https://huggingface.co/settings/tokens and give it to `roundhouse token set`.",
    note="Its memory use can be estimated once its terms are accepted.",
    as_of=NOON,
)


def _make_pick(  # noqa: PLR0913, PLR0917 -- a line of a table
    title: str, name: str, good_for: str, size: float, gb: float, rate: float, quality: int, **more: object
) -> HubPick:
    card = _make_card(f"Qwen/{title.replace(' ', '-')}", size, gb * 1.1, rate, ["gguf", "mlx", "exl3", "awq"], 0)
    fits, is_unchecked = bool(more.pop("fits", True)), bool(more.pop("unchecked", False))
    card = msgspec.structs.replace(
        card, title=title, fits=fits, download_bytes=round(gb * 1e9), unchecked=is_unchecked, downloads=0
    )
    licence = str(more.pop("licence", "apache-2.0"))
    fields = {
        "family": title.partition(" ")[0],
        "licence": licence,
        "commercial": commercial_use(licence),
        **more,
    }
    return HubPick(
        name=title,
        pull=name,
        repository=card.repositories[0].repository,
        use=HubUse.CHAT,
        card=card,
        quality=quality,
        good_for=good_for.split(),
        **fields,  # type: ignore[arg-type] # a table of a demonstration
    )


_ALL = "chat coding reasoning vision tools"
PICKS = [
    _make_pick(
        *("Qwen3.8 27B", "qwen3.8:27b", _ALL, 27.8, 17.1, 41.0, 340),
        is_best=True,
        is_recommended=True,
        reason="The best for chat in the catalogue that runs well on this machine, at about 41 tok/s. The next better, "
        "GLM 5.3 Flash, needs 184 GiB, more than there is.",
    ),
    _make_pick(
        *("Qwen3.6 35B-A3B", "qwen3.6:35b", "chat coding reasoning vision tools", 35.2, 21.0, 139.0, 182),
        is_fast=True,
        is_recommended=True,
        reason="Writes faster, and is the best for chat of those that write 1.5 times as fast.",
    ),
    _make_pick("Qwen3.6 27B", "qwen3.6:27b", _ALL, 27.8, 16.9, 41.0, 232),
    _make_pick("Muse Glimmer 30B", "muse-glimmer:30b", "chat reasoning", 30.1, 18.2, 42.0, 209, is_new=True),
    _make_pick("Gemma 4 31B", "gemma4:31b", "chat vision tools", 31.3, 19.4, 12.0, 182, licence="gemma"),
    _make_pick("Gemma 4 26B-A4B", "gemma4:26b", "chat vision tools", 26.1, 15.8, 88.0, 161, licence="gemma"),
    _make_pick("Gemma 4 12B", "gemma4:12b", "chat vision tools", 12.2, 7.4, 71.0, 141, licence="gemma", is_new=True),
    _make_pick("Command A 111B", "command-a:111b", "chat tools", 111.1, 67.0, 3.4, 128, licence="cc-by-nc-4.0"),
    _make_pick("GLM 5.3 Flash", "glm-5.3-flash", _ALL, 310.0, 190.0, 9.0, 412, fits=False, licence="glm-5.3"),
    _make_pick("Spark-X Mini", "spark-x:8b", "chat", 8.0, 5.0, 90.0, 0, licence="", unchecked=True),
]


def _make_download(name: str, state: DownloadState, share: float, **more: object) -> Download:
    total = round(5.85e9)
    fields = {
        "id": f"dl_{name}",
        "title": f"unsloth/{name}-GGUF:Q5_K_M",
        "repository": f"unsloth/{name}-GGUF",
        "revision": "main",
        "commit": _COMMIT,
        "files": [f"{name}-Q5_K_M.gguf"],
        "quantization": "Q5_K_M",
        "state": state,
        "total_bytes": total,
        "present_bytes": round(total * share),
        **more,
    }
    return Download(**fields)  # type: ignore[arg-type] # a table of a demonstration


DOWNLOADS = [
    _make_download(
        "Qwen3-14B",
        DownloadState.RUNNING,
        0.63,
        bytes_per_s=48.2e6,
        eta_s=45.0,
        machine="desk",
        note="Qwen3-14B-Q5_K_M.gguf is downloaded over plain HTTP: Xet storage closed the connection.",
    ),
    _make_download("gemma-3-4b-it", DownloadState.QUEUED, 0.0),
    _make_download(
        "Devstral-Small",
        DownloadState.FAILED,
        0.21,
        error=ErrorBody(
            code="disk_full",
            sentence="The download needs 4.6 GB, and 2.1 GB are free on its disk.",
            hint="Free 3.6 GB, or move the cache with HF_HOME.",
        ),
    ),
    _make_download("Qwen3-8B", DownloadState.DONE, 1.0, folder="/home/ada/.cache/huggingface/hub"),
]


def hub_replies() -> Mapping[str, object]:
    """Return what the demo gateway answers about the hub."""
    return {
        "GET /downloads": [],
        "POST /downloads": DOWNLOADS[0],
        "GET /hub/search": RESULTS,
        "GET /hub/catalogue": PICKS,
        **{
            f"GET /hub/catalogue?text={text}": [pick for pick in PICKS if text in pick.pull]
            for text in ("qwen3", "gemma")
        },
        "POST /hub/catalogue/look": None,
        "GET /hub/model": MODEL,
        "GET /hub/token": HubTokenState(place=TokenPlace.KEYRING, said="The token is in this system's keyring."),
    }
