"""Models made of a few widths, in any format, for tests of the advisor: real shapes, sizes by bits per weight."""

from dataclasses import dataclass, replace

import msgspec

from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind

BITS = {
    "F16": 16.0,
    "Q8_0": 8.5,
    "Q6_K": 6.56,
    "Q5_K_M": 5.7,
    "Q4_K_M": 4.85,
    "Q3_K_M": 3.9,
    "Q2_K": 3.0,
    "8.0bpw": 8.0,
    "6.0bpw": 6.0,
    "5.0bpw": 5.0,
    "4.0bpw": 4.0,
    "3.0bpw": 3.0,
    "2.4bpw": 2.4,
    "8-bit": 8.5,
    "6-bit": 6.5,
    "4-bit": 4.5,
    "FP8": 8.0,
    "AWQ": 4.16,
    "GPTQ": 4.16,
    "NVFP4": 4.5,
    "MXFP4": 4.25,
    "BF16": 16.0,
    "int4": 4.5,
    "q4f16_1": 4.5,
}
LADDERS = {
    "gguf": ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"),
    "exl2": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw", "2.4bpw"),
    "exl3": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw", "2.4bpw"),
    "mlx": ("8-bit", "6-bit", "4-bit"),
    "fp8": ("FP8",),
    "awq": ("AWQ",),
    "gptq": ("GPTQ",),
    "nvfp4": ("NVFP4",),
    "safetensors": ("BF16",),
    "openvino": ("int4",),
    "onnx-genai": ("int4",),
    "mlc": ("q4f16_1",),
}
EVERY_FORMAT = tuple(LADDERS)


@dataclass(frozen=True)
class Made:
    """Widths of a decoder. `window` > 0 makes five of six layers slide."""

    name: str = "Made 8B"
    layers: int = 32
    hidden_size: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    feed_forward: int = 14336
    experts: int = 0
    experts_used: int = 0
    window: int = 0
    vocabulary: int = 128_256
    trained_context: int | None = 131_072
    architecture: str = "llama"
    capabilities: tuple[str, ...] = ("chat", "tools")

    def facts(self, quantization: str, format_name: str = "gguf") -> ModelFacts:
        weights = [group for index in range(self.layers) for group in self._block(index, quantization)]
        for kind in (WeightKind.INPUT_EMBEDDING, WeightKind.OUTPUT):
            weights += [group_of(kind, None, quantization, self.vocabulary * self.hidden_size)]
        parameters = sum(group.elements for group in weights)
        idle = sum(group.elements for group in weights if group.kind is WeightKind.EXPERTS)
        share = self.experts_used / self.experts if self.experts else 1
        return ModelFacts(
            name=f"{self.name} {quantization}",
            format=format_name,
            architecture=self.architecture,
            quantization=quantization,
            layers=[self._layer(index) for index in range(self.layers)],
            weights=weights,
            hidden=self.hidden_size,
            vocabulary=self.vocabulary,
            file_bytes=sum(group.bytes for group in weights),
            parameters=parameters,
            active_parameters=round(parameters - idle * (1 - share)),
            trained_context=self.trained_context,
            capabilities=list(self.capabilities),
        )

    def every(self, *formats: str) -> list[ModelFacts]:
        """All quantisations of the formats named, or of every format."""
        chosen_formats = formats or EVERY_FORMAT
        return [self.facts(quantization, name) for name in chosen_formats for quantization in LADDERS[name]]

    def _layer(self, index: int) -> Layer:
        slides = self.window and index % 6 != 5
        return Layer(
            attention=AttentionKind.SLIDING if slides else AttentionKind.FULL,
            heads=self.heads,
            kv_heads=self.kv_heads,
            key_dim=self.head_dim,
            value_dim=self.head_dim,
            window=self.window if slides else 0,
            feed_forward=self.feed_forward,
            experts=self.experts,
            experts_used=self.experts_used,
        )

    def _block(self, index: int, quantization: str) -> list[WeightGroup]:
        attention = self.hidden_size * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        kind = WeightKind.EXPERTS if self.experts else WeightKind.FEED_FORWARD
        wide = 3 * self.hidden_size * self.feed_forward * max(1, self.experts)
        return [
            group_of(WeightKind.ATTENTION, index, quantization, attention),
            group_of(kind, index, quantization, wide),
        ]


def group_of(kind: WeightKind, layer: int | None, quantization: str, elements: int) -> WeightGroup:
    size = round(elements * BITS[quantization] / 8)
    return WeightGroup(
        kind=kind, layer=layer, type=quantization, tensors=3, elements=elements, bytes=size, padded_bytes=size
    )


SMALL = Made(name="Made 1B", layers=16, hidden_size=2048, heads=32, head_dim=64, feed_forward=8192)
EIGHT = Made()
FOURTEEN = replace(
    EIGHT, name="Made 14B", layers=40, hidden_size=5120, heads=40, feed_forward=17408, vocabulary=151_936
)
THIRTY_TWO = replace(
    EIGHT,
    name="Made 32B",
    layers=64,
    hidden_size=5120,
    heads=64,
    feed_forward=25600,
    vocabulary=151_936,
    trained_context=40_960,
)
SEVENTY = replace(EIGHT, name="Made 70B", layers=80, hidden_size=8192, heads=64, feed_forward=28672)
MIXTURE = replace(
    EIGHT,
    name="Made 30B-A3B",
    architecture="qwen3moe",
    layers=48,
    hidden_size=2048,
    kv_heads=4,
    feed_forward=768,
    experts=128,
    experts_used=8,
    vocabulary=151_936,
)
SLIDING = replace(EIGHT, name="Made 12B", layers=48, hidden_size=3840, heads=16, feed_forward=15360, window=1024)
GIANT = replace(
    MIXTURE,
    name="Made 480B",
    layers=62,
    hidden_size=6144,
    heads=96,
    kv_heads=8,
    feed_forward=2560,
    experts=160,
)


TINY = Made(layers=4, hidden_size=1024, heads=8, kv_heads=2, feed_forward=4096, vocabulary=32_000)
TINY_MIXTURE = Made(
    layers=4, hidden_size=1024, heads=8, kv_heads=2, feed_forward=2048, experts=16, experts_used=2, vocabulary=32_000
)


def repack_model(decoder: Made) -> ModelFacts:
    """Return a model whose matrices a processor with AVX2 gets a copy of."""
    facts = decoder.facts("Q8_0")
    weights = [msgspec.structs.replace(group, type="Q4_0") for group in facts.weights]
    return msgspec.structs.replace(facts, weights=weights)
