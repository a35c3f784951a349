"""A small Llama in plain torch: RMSNorm, rotary positions, grouped queries, SwiGLU.

Parameter names are those of Hugging Face's LlamaForCausalLM, so that the export is
a copy. Input and output embeddings are one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of the model; all are multiples of 64 so that every backend has kernels."""

    vocabulary: int = 2048
    width: int = 256
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 64
    hidden: int = 640
    context: int = 4096
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines per token position, broadcast over heads."""

    cos: Tensor
    sin: Tensor

    def turn(self, heads: Tensor) -> Tensor:
        """Rotate the two halves of each head against each other, as Hugging Face does."""
        first, second = heads.chunk(2, dim=-1)
        return heads * self.cos + torch.cat((-second, first), dim=-1) * self.sin


class RMSNorm(nn.Module):
    """Scale to unit root mean square."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.width))
        self._epsilon = shape.norm_epsilon

    def forward(self, state: Tensor) -> Tensor:
        """Normalise over the last dimension."""
        return functional.rms_norm(state, self.weight.shape, self.weight, self._epsilon)


class Attention(nn.Module):
    """Causal self-attention with fewer key heads than query heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape
        self.q_proj = nn.Linear(shape.width, shape.heads * shape.head_width, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * shape.head_width, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * shape.head_width, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_width, shape.width, bias=False)

    def forward(self, state: Tensor, rotation: Rotation) -> Tensor:
        """Attend over (batch, time, width)."""
        query = rotation.turn(self._split(self.q_proj(state)))
        key = rotation.turn(self._split(self.k_proj(state)))
        value = self._split(self.v_proj(state))
        mixed = functional.scaled_dot_product_attention(
            query.to(value.dtype), key.to(value.dtype), value, is_causal=True, enable_gqa=True
        )
        result: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, state: Tensor) -> Tensor:
        rows, time, _ = state.shape
        return state.view(rows, time, -1, self._shape.head_width).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, state: Tensor) -> Tensor:
        """Map each position by itself."""
        result: Tensor = self.down_proj(functional.silu(self.gate_proj(state)) * self.up_proj(state))
        return result


class Layer(nn.Module):
    """One transformer block, with dropout on both residual branches."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape)
        self.mlp = FeedForward(shape)
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: Tensor, rotation: Rotation) -> Tensor:
        """Return the state with both branches added."""
        state = state + self.dropout(self.self_attn(self.input_layernorm(state), rotation))
        result: Tensor = state + self.dropout(self.mlp(self.post_attention_layernorm(state)))
        return result


class Body(nn.Module):
    """Embedding, blocks and the last norm."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        self.norm = RMSNorm(shape)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, rotation: Rotation) -> Tensor:
        """Return the normalised last state of every position."""
        state = self.dropout(self.embed_tokens(ids))
        for layer in self.layers:
            state = layer(state, rotation)
        result: Tensor = self.norm(state)
        return result


class Guide(nn.Module):
    """The whole model."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.model = Body(shape, dropout)
        self.apply(_initialise)
        for name, weight in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the last states; `logits` turns chosen ones into scores."""
        result: Tensor = self.model(ids, rotation_for(self.shape, positions))
        return result

    def logits(self, states: Tensor) -> Tensor:
        """Score the vocabulary with the embedding matrix."""
        return functional.linear(states, self.model.embed_tokens.weight)


def rotation_for(shape: Shape, positions: Tensor) -> Rotation:
    """Return the rotary tables for (batch, time) positions (Su et al., 2021)."""
    exponents = torch.arange(0, shape.head_width, 2, dtype=torch.float32) / shape.head_width
    angles = positions.float().unsqueeze(-1) * shape.rope_base**-exponents
    both = torch.cat((angles, angles), dim=-1).unsqueeze(1)
    return Rotation(both.cos(), both.sin())


def _initialise(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
