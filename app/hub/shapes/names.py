"""Read what people call a model: the quantisation is split off, the rest is cut into words that can be compared.

"bartowski/Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf" is qwen 2.5 coder 7b instruct, and Q4_K_M.
"""

import re
from collections.abc import Sequence

_ENDING = re.compile(r"(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)$", re.IGNORECASE)
_QUANTIZATION = re.compile(
    r"(?:^|(?<=[-_.:/ ]))"
    r"(?:i1-)?"
    r"(?P<quantization>(?:UD-)?(?:IQ[1-4]|TQ[12]|Q[1-8])_[A-Z0-9]+(?:_[A-Z0-9]+)*"
    r"|BF16|F16|FP16|F32|FP32|FP8(?:-DYNAMIC)?|MXFP4(?:_MOE)?|NVFP4"
    r"|AWQ|GPTQ|\d(?:\.\d+)?[-_ ]?bpw|\d-?bit(?:-g\d+)?|INT[48]|W[48]A(?:16|8))"
    r"(?=$|[-_.:/ ])",
    re.IGNORECASE,
)
_TRAINED_FOR = re.compile(r"[-_. ](?:QAT|i1)$", re.IGNORECASE)
_SAME = {"FP16": "F16", "FP32": "F32", "FP8-DYNAMIC": "FP8", "MXFP4_MOE": "MXFP4"}
_SIZE = re.compile(r"\d+x\d+(?:\.\d+)?b|[ae]?\d+(?:\.\d+)?[bm]")
"""A word that counts parameters: "8b", "8x7b", "a3b" (of which are active), "e4b" (are effective), "270m"."""
_TOTAL = re.compile(r"\d+x\d+(?:\.\d+)?b|e?\d+(?:\.\d+)?[bm]")
_PIECES = re.compile(r"\d+(?:\.\d+)*|[a-z]+")


def split_name(text: str) -> tuple[str, str]:
    """Return a model's name and its quantisation in capitals ("Q4_K_M", "4BIT-G64", "AWQ"); "" where none is said."""
    name = _ENDING.sub("", text.strip())
    match = _QUANTIZATION.search(name)
    if match is None:
        return name, ""
    quantization = match["quantization"].upper()
    before = name[: match.start()].rstrip("-_.:/ ")
    return _TRAINED_FOR.sub("", before) or name[match.end() :].lstrip("-_.:/ "), _SAME.get(quantization, quantization)


def name_words(name: str) -> list[str]:
    """Return a name's words: "Llama-3.2-1B_Instruct" and "llama3.2:1b-instruct" are the same."""
    last = name.casefold().rstrip("/").rpartition("/")[2]
    joined = re.sub(r"(?<=\d)_(?=\d)", ".", last)  # InternLM writes 2_5 for 2.5
    pieces: list[str] = []
    for part in re.split(r"[^a-z0-9.]+", joined):
        pieces += [part] if _SIZE.fullmatch(part) else _PIECES.findall(part)
    return pieces


def cut_pattern(pattern: str) -> str:
    """Return a pattern in the form `count_matches` takes: its words cut as a name's are, "!" left in front."""
    return " ".join(f"!{word[1:]}" if word.startswith("!") else " ".join(name_words(word)) for word in pattern.split())


def count_matches(pattern: str, name: Sequence[str]) -> int:
    """Return how well a pattern fits the words of a name: the count of its words, or 0 if it does not.

    A pattern that says no size fits only a name that says none: "llama 3.2" is what a chat program calls its 3B, but
    never an 11B.
    """
    expected = [word for word in pattern.split() if not word.startswith("!")]
    excluded = {word[1:] for word in pattern.split() if word.startswith("!")}
    if not excluded.isdisjoint(name) or not _occur_in_order(expected, name):
        return 0
    if any(map(_TOTAL.fullmatch, name)) and not any(map(_TOTAL.fullmatch, expected)):
        return 0
    return len(expected)


def _occur_in_order(expected: Sequence[str], name: Sequence[str]) -> bool:
    rest = iter(name)
    return all(word in rest for word in expected)
