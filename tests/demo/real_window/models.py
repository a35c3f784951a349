"""The models that the rows ask, all run by the real llama.cpp.

Beside the Guide: its copy, for what takes two models; one that writes formulas, a table and a diff whatever it is
asked; one that thinks; one with made-up weights and a real projector, for pictures.
"""

import shutil
from pathlib import Path

from app.config.paths import RESOURCES
from tests.gguf_files import TinyLlama, projector_for
from tests.scripted_gguf import ScriptedLlama

COUNT = 5
"""With the Guide."""
_LEAST_PIECE = 7
"""Characters; short, so that formulas come in halves."""
PAGE = """\
The sum is $\\sum_{k=1}^{n} k = \\frac{n(n+1)}{2}$, and the integral

$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$

| Engine | Format | Tokens per second |
|---|---|---|
| llama.cpp | GGUF | 41 |
| "vLLM", fast | AWQ | 96 |

```diff
-    return slow(page)
+    return quick(page)
```

More is at https://example.org/roundhouse on the web.
"""
THOUGHTS = ["<think>", "I look at ", "the question ", "from two sides.", "</think>", "The answer ", "is forty-two."]


def write_models(folder: Path) -> None:
    """Put the models into a folder of models."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(RESOURCES / "guide" / "guide-q8_0.gguf", folder / "second.gguf")
    ScriptedLlama(cut_into_pieces(PAGE), name="Writer").write(folder / "writer.gguf")
    ScriptedLlama(THOUGHTS, name="Thinker").write(folder / "thinker.gguf")
    sighted_folder = folder / "sighted"
    sighted_folder.mkdir(exist_ok=True)
    TinyLlama(name="Sighted").write(sighted_folder / "sighted.gguf")
    projector_for(TinyLlama(), sighted_folder / "mmproj-sighted-f16.gguf")


def cut_into_pieces(text: str) -> list[str]:
    """Return a text in short pieces, no two alike: each is a token of its own."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + _LEAST_PIECE
        while text[start:end] in pieces and end < len(text):
            end += 1
        pieces.append(text[start:end])
        start = end
    return pieces
