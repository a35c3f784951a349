import pytest

from app.hub.facts.packed import ModuleWeight, WeightPacking, weights_of
from app.hub.facts.safetensors import DTYPE_BITS, FileTensor

IN, OUT = 4096, 1024
"""Of every weight below: 4,194,304 parameters."""


def make_tensors(**parts: tuple[str, tuple[int, ...]]) -> list[FileTensor]:
    tensors = []
    for part, (dtype, shape) in parts.items():
        tensor = FileTensor(f"model.layers.3.mlp.up_proj.{part.replace('__', '.')}", dtype, shape, 0)
        tensors.append(FileTensor(tensor.name, dtype, shape, tensor.elements * DTYPE_BITS[dtype] // 8))
    return tensors


def weigh(parts: list[FileTensor], weight_packing: WeightPacking | None = None) -> ModuleWeight:
    (weight,) = weights_of(parts, weight_packing or WeightPacking())
    assert weight.bytes == sum(part.bytes for part in parts)
    assert weight.tensors == len(parts)
    return weight


def bits_per_weight(weight: ModuleWeight) -> float:
    return weight.bytes * 8 / weight.elements


@pytest.mark.parametrize(("bits", "group"), [(4, 64), (4, 32), (8, 64), (3, 64), (6, 128), (5, 32), (2, 64)])
def test_mlx_takes_its_bits_and_two_half_floats_a_group(bits: int, group: int) -> None:
    parts = make_tensors(
        weight=("U32", (OUT, IN * bits // 32)), scales=("BF16", (OUT, IN // group)), biases=("BF16", (OUT, IN // group))
    )
    weight = weigh(parts, WeightPacking(bits=9, group_size=group))
    assert (weight.elements, weight.type) == (IN * OUT, f"{bits}-bit g{group}")
    assert bits_per_weight(weight) == bits + 32 / group


def test_a_module_may_have_a_group_size_of_its_own() -> None:
    parts = make_tensors(
        weight=("U32", (OUT, IN // 4)), scales=("F16", (OUT, IN // 32)), biases=("F16", (OUT, IN // 32))
    )
    weight_packing = WeightPacking(4, 64, {"model.layers.3.mlp.up_proj": 32})
    assert weigh(parts, weight_packing).type == "8-bit g32"
    assert weigh(parts, weight_packing).elements == IN * OUT


def test_gptq_packs_along_the_inputs_and_awq_along_the_outputs() -> None:
    shared_tensors = {"qzeros": ("I32", (IN // 128, OUT // 8)), "scales": ("F16", (IN // 128, OUT))}
    gptq = weigh(make_tensors(qweight=("I32", (IN // 8, OUT)), g_idx=("I32", (IN,)), **shared_tensors))
    awq = weigh(make_tensors(qweight=("I32", (IN, OUT // 8)), **shared_tensors))
    for weight in (gptq, awq):
        assert (weight.elements, weight.type) == (IN * OUT, "4-bit g128")
    assert bits_per_weight(awq) == pytest.approx(4.156, abs=0.001)


def test_gptq_of_eight_bits_is_told_by_its_zero_points() -> None:
    parts = make_tensors(
        qweight=("I32", (IN // 4, OUT)), qzeros=("I32", (IN // 32, OUT // 4)), scales=("F16", (IN // 32, OUT))
    )
    assert weigh(parts, WeightPacking(bits=4)).type == "8-bit g32"
    assert weigh(parts, WeightPacking(bits=4)).elements == IN * OUT


def test_exl2_tells_its_inputs_by_the_permutation() -> None:
    parts = make_tensors(
        q_weight=("I32", (IN * 5 // 32, OUT)),
        q_invperm=("I16", (IN,)),
        q_scale=("I32", (32, OUT // 8)),
        q_scale_max=("F16", (32,)),
        q_groups=("I16", (64,)),
    )
    weight = weigh(parts)
    assert (weight.elements, weight.type) == (IN * OUT, "EXL2 5.0-bit")


def test_exl3_is_tiles_of_a_trellis() -> None:
    parts = make_tensors(trellis=("I16", (IN // 16, OUT // 16, 16 * 3)), suh=("F16", (IN,)), svh=("F16", (OUT,)))
    weight = weigh(parts)
    assert (weight.elements, weight.type) == (IN * OUT, "EXL3 3-bit")
    assert bits_per_weight(weight) == pytest.approx(3.0, abs=0.03)
    trellis = ("I16", (IN // 16, OUT // 16, 16 * 4))
    assert weigh(make_tensors(trellis=trellis, mul1=("I32", ()))).type == "EXL3 4-bit mul1"


def test_four_bit_floats_are_two_to_a_byte() -> None:
    blocks = FileTensor(
        "model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", (32, OUT, IN // 32, 16), 32 * OUT * IN // 2
    )
    scales = FileTensor("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", (32, OUT, IN // 32), OUT * IN)
    mxfp4 = weigh([blocks, scales])
    assert (mxfp4.elements, mxfp4.type, bits_per_weight(mxfp4)) == (32 * IN * OUT, "MXFP4", 4.25)
    scale = {"weight_scale": ("F8_E4M3", (OUT, IN // 16))}
    modelopt = weigh(make_tensors(weight=("U8", (OUT, IN // 2)), weight_scale_2=("F32", (1,)), **scale))
    compressed_weights = weigh(
        make_tensors(weight_packed=("U8", (OUT, IN // 2)), weight_global_scale=("F32", (1,)), **scale)
    )
    for weight in (modelopt, compressed_weights):
        assert (weight.elements, weight.type) == (IN * OUT, "NVFP4")
        assert bits_per_weight(weight) == pytest.approx(4.5, abs=0.001)


def test_eight_bit_floats_integers_and_bitsandbytes() -> None:
    fp8 = weigh(make_tensors(weight=("F8_E4M3", (OUT, IN)), weight_scale_inv=("F32", (OUT // 128, IN // 128))))
    int4 = weigh(make_tensors(weight_packed=("I32", (OUT, IN // 8)), weight_scale=("BF16", (OUT, IN // 128))))
    bnb = weigh(make_tensors(weight=("U8", (IN * OUT // 2, 1)), weight__absmax=("U8", (IN * OUT // 64,))))
    assert [(weight.elements, weight.type) for weight in (fp8, int4, bnb)] == [
        (IN * OUT, "FP8"),
        (IN * OUT, "4-bit"),
        (IN * OUT, "4-bit (bitsandbytes)"),
    ]


def test_plain_tensors_stand_by_themselves() -> None:
    parts = make_tensors(weight=("BF16", (OUT, IN)), bias=("BF16", (OUT,)))
    assert [(weight.elements, weight.type) for weight in weights_of(parts, WeightPacking())] == [
        (IN * OUT, "BF16"),
        (OUT, "BF16"),
    ]
