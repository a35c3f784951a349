"""The copy llama.cpp makes of matrices the processor multiplies, in a layout its vector units read best.

The file stays mapped besides, so these weights are counted twice. Rule: `ggml_repack_get_optimal_repack_type`; for x86
checked against the loaded buffers of xllamacpp 2026.10.11549, for ARM read in the source only.
"""

_AVX2 = frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})
"""Q2_K would join with AVX-512, but the wheel is built for AVX2."""
_DOT_PRODUCT = frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4", "Q1_0"})
_ARM = ("asimddp", "dotprod", "i8mm")
"""How Linux and macOS name the extensions that bring integer dot products to ARM."""


def types_to_repack(isa: tuple[str, ...]) -> frozenset[str]:
    """Return the ggml types that a processor with these extensions gets a second copy of."""
    if "avx2" in isa:
        return _AVX2
    return _DOT_PRODUCT if any(name in isa for name in _ARM) else frozenset()
