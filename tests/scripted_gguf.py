"""A GGUF whose weights make llama.cpp say exactly what a test wants: tool calls, reasoning, any text.

The pieces of the script are tokens of their own. Embeddings are one-hot, attention and the feed-forward layers add
nothing, and the last matrix maps every token to its successor: after the prompt's last newline the script begins, and
each piece calls the next until the end of the turn.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.gguf_files import (
    ARRAY,
    CONTROL,
    INT32,
    MERGES,
    NORMAL,
    STRING,
    TinyLlama,
    Typed,
    Value,
    gguf_bytes,
    vocabulary,
)

USER_DEFINED = 4
_CERTAIN = 8.0
"""So much louder than the rest is the successor that no temperature in use draws another token."""
_HEADS, _HEAD_WIDTH, _INNER = 1, 16, 32

TOOL_TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}
{% endif %}# Tools
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0]['role'] == 'system' %}<|im_start|>system
{{ messages[0]['content'] }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""
"""After Qwen 3's: tools in and out as JSON between tags, reasoning between others."""


@dataclass(frozen=True)
class ScriptedLlama:
    """A model that says `script`, piece by piece, to whatever it is asked.

    No piece may be a token of the usual vocabulary (a single character, "th", "he"): llama.cpp aborts on two alike.
    """

    script: Sequence[str]
    template: str = TOOL_TEMPLATE
    name: str = "Scripted"
    values: dict[str, Value] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        path.write_bytes(gguf_bytes({**self.metadata(), **self.values}, self.tensors()))
        return path

    @property
    def words(self) -> list[str]:
        """The usual vocabulary, the pieces of the script, and rows without meaning up to a round number."""
        words = [*vocabulary(), *self.script]
        return [*words, *(f"<unused{at}>" for at in range(-len(words) % 32))]

    def metadata(self) -> dict[str, Value]:
        words, usual = self.words, len(vocabulary())
        kinds = [*[NORMAL] * (usual - 3), *[CONTROL] * 3, *[USER_DEFINED] * (len(words) - usual)]
        return {
            **TinyLlama(
                width=len(words), layers=1, heads=_HEADS, inner=_INNER, head_width=_HEAD_WIDTH, name=self.name
            ).metadata(),
            "tokenizer.ggml.tokens": Typed(ARRAY, words, STRING),
            "tokenizer.ggml.merges": Typed(ARRAY, MERGES, STRING),
            "tokenizer.ggml.token_type": Typed(ARRAY, kinds, INT32),
            "tokenizer.chat_template": self.template,
        }

    def tensors(self) -> list[tuple[str, list[int], bytes]]:
        words, inner, heads = self.words, _INNER, _HEADS * _HEAD_WIDTH
        width = len(words)
        silent = {
            "attn_q": [width, heads],
            "attn_k": [width, heads],
            "attn_v": [width, heads],
            "attn_output": [heads, width],
            "ffn_gate": [width, inner],
            "ffn_up": [width, inner],
            "ffn_down": [inner, width],
        }
        ones = struct.pack(f"<{width}f", *[1.0] * width)
        return [
            ("token_embd.weight", [width, width], _rows({at: at for at in range(width)}, width, 1.0)),
            ("output_norm.weight", [width], ones),
            ("output.weight", [width, width], _rows(self._predecessors(), width, _CERTAIN)),
            ("blk.0.attn_norm.weight", [width], ones),
            ("blk.0.ffn_norm.weight", [width], ones),
            *((f"blk.0.{name}.weight", shape, bytes(4 * shape[0] * shape[1])) for name, shape in silent.items()),
        ]

    def _predecessors(self) -> dict[int, int]:
        """Return which token each token of the script follows."""
        words = self.words
        newline, end = words.index("Ċ"), words.index("<|im_end|>")
        first = len(vocabulary())
        chain = [newline, *range(first, first + len(self.script)), end]
        return dict(zip(chain[1:], chain, strict=False))


def _rows(marks: dict[int, int], width: int, value: float) -> bytes:
    """Return a square matrix of zeros with one value in each of the rows named, in the column named."""
    cells = bytearray(4 * width * width)
    for row, column in marks.items():
        struct.pack_into("<f", cells, 4 * (row * width + column), value)
    return bytes(cells)
