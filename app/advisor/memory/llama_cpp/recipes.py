"""The graphs llama.cpp computes, block by block, written as what they hold, and the memory they need.

A recipe is steps "result WIDTH source ...", separated by ";". A result may go by a name that was there before, which it
then replaces. "*source" marks the one whose memory the result takes over where nobody else needs it; "." reads sources
and makes nothing. Views cost nothing and are left out. Widths are words for bytes, given by `build_blocks`.
The order is that of the graphs of build 11549, as its scheduler lists them.

ggml_gallocr gives a tensor the smallest gap it fits, else the end; what a buffer takes is the furthest end. Gaps too
small for what comes later make that more than what is ever alive at once, which is why it is played through here.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

SAME = "="
"""In the place of a width: just another name for what is there."""


class RecipeStep(NamedTuple):
    """One tensor: its name ("" for none), its width's word, what it is made of, and whose memory it may take."""

    name: str
    width: str
    sources: tuple[str, ...]
    over: str


NORM = "n E x; h E n"

QUERY, KEY, VALUE = "q Q h; q Q q", "k K h; k K k", "v V h"
"""Projections; queries and keys are turned (RoPE)."""
QUERY_NORMED, KEY_NORMED = "q Q h; n Q q; m Q n; q Q m", "k K h; n K k; m K n; k K m"
"""Heads are normalised before they are turned."""
VALUE_NORMED = "v V h; v V v"
TURN_QUERY, TURN_KEY, TURN_VALUE = "q Q q krot", "k K k krot", "v V v vrot"
"""Quantised caches hold rotated heads (a Hadamard matrix evens out what is quantised)."""
FUSED_QKV = "w QKV h; q Q w; k K w"
FUSED_QKV_ROTATED = "w QKV h; q Q w; q Q q krot; v V w; v V v vrot; k K w; k K k krot"
FUSED_QKV_NORMED = "w QKV h; n Q w; m Q n; q Q *m; n K w; m K n; k K *m"
FUSED_QKV_NORMED_ROTATED = f"{FUSED_QKV_NORMED}; q Q q krot; v V w; v V v vrot; k K k krot"
FUSED_QKV_APART = "w QKV h; q Q w; k K w; v V w"
"""Without flash attention values are stored turned over, which takes a copy of them."""
UNROTATED = "o O o vrot"
STORED = ". k; . v vidx"
STORED_FUSED = ". k; . w"
FLASH = "o O q mask"
SCORES = "s S q; s S *s mask; o O s; o O o"
"""Without flash attention the scores of all heads are there at once."""
OUT = "o E o"

LATENT_Q = "q QR h; n QR q; q QR n; q QF q; a HL q; p HR q; q HLR a p"
LATENT_Q_FULL = "q QF h; a HL q; p HR q; q HLR a p"
LATENT_KEYS = "w LR h; n L w; c L n; p R w; k LR c p; . k"
LATENT_FLASH = "o HL q mask; o HV o; o HV o"
LATENT_SCORES = "v VC; s S q; s S *s mask; o HL v s; o HV o; o HV o"

ADD = "x E *o x"
ADD_BOTH = "x E *o x; a E a; x E *x a"
"""Attention's output comes after the feed-forward part's."""
SANDWICH = "n E o; o E n; x E *o x"
GATED = "g F h; u F h; s F g u; o E s"
FUSED_GATED = "u F2 h; s F u; o E s"
UNGATED = "u F h; u F *u; o E u"

ROUTER = "l X h; l X l; t X l; w W l t"
ROUTER_BIASED = "l X h; l X l; b X l; t X b; w W l t"
WEIGHTS_NORMED = "y W1 w; y W1 *y; w W w y"
EXPERTS = "g FX h t; u FX h t; s FX g u; d EX s t; d EX *d w; m E d"
WEIGHTED_FIRST = "r EX h; r EX *r w; g FX r t; u FX r t; s FX g u; d EX s t; m E d"
"""Llama 4 weighs what goes into the experts, not what comes out."""
MORE_EXPERTS = "m E *m d"
UNGATED_EXPERTS = "e LE h; u FX e t; u FX *u; d LX u t; d LX *d w; m LE d"
MORE_UNGATED = "m LE *m d"
UNGATED_EXPERTS_OUT = "m E m"
"""Nemotron's latent experts: fewer elements go in and out of them."""
SHARED_EXPERTS = "g FS h; u FS h; s FS g u; d E s; m E *m d"
MERGED = "o E *m"

EXPERTS_BESIDE = (
    "n E x; n E *n; n E *n; l X n; l X l; t X l; w W l t; n E x; h E n; u FX2 h t; s FX u; d EX s t; d EX *d; "
    "d EX *d w; m E d; ...; n E x; h E n; g FD h; u FD h; s FD g u; o E s; n E o; o E n; n E m; m E n; o E *o m"
)
"""Gemma 4: experts and a dense part, each with norms before and after."""

CONV = "c C0 w; c C c; c C *c; c C *c"
MAMBA = f"w I2 h; {CONV}; b B c; d B b; d I d; d I *d; y IS c d b; r SX; . r; z I w; e I *c; e I *e y; z I z e; o E z"
SCAN = f"w ZX h; {CONV}; d H w; d H *d; y IS c d; r SX; . r"
SCAN_GATED = "z I w; e I c; e I *e y; z I z e"
MAMBA2 = f"{SCAN}; {SCAN_GATED}; n I z; z I n; o E z"
BESIDE_MAMBA2 = f"{SCAN}; a E a; {SCAN_GATED}; o E z; o E *a o"
"""Falcon-H1: attention's output is made between scan and gate, and both are added."""
DELTA = (
    "w C h; c C0 w; s ST; c C c; c C *c; q D c; q D *q; k D c; k D *k; g H h; g H *g; b H h; b H *b; "
    "y IS q k c g b s; . y; n I y; m I n; z I h; z I z; m I *m z; o E m"
)
DELTA_REPEATED = (
    "w C h; c C0 w; s ST; c C c; c C *c; q D c; q D *q; q I q; k D c; k D *k; k I k; g H2 h; b H g; b H *b; "
    "y IS q k c g b s; . y; n I y; m I n; z I h; z I z; m I *m z; o E m"
)
SHORT_CONV = "w E3 h; b E w; c E0 b; c E c; y E *c w; o E y"


PER_LAYER_FIRST = "f P m; f P *f; n P f; f P n; i P *i; f P *f i; f P *f; i P f"
"""Once, after the first block: each layer's own input, from the token and from the embedding."""
PER_LAYER = "g PL x; g PL *g; g PL *g i; g E g; n E g; g E n; x E *x g"

STACK = "r E3 x; w E3 r; v E3 w; v E3 *v w; s E4 x v"
"""Gemma 3n: four streams made of the embedding."""
PREDICT = "p E4 s; n E s; q E n; q E *q; a E4 p q; b E4 a; b E4 *b s; n E b; h E n"
LAUREL = "n E o; o E n; o E *o b; l E h; n E l; l E n; l E *l h; o E *o l; x E *o"
SPARSE_GATED = "n E x; h E n; u F h; g F h; t F g; t F *t; g F *g t; u F *u g; d E u; n E d; o E n; o E *o x"
CORRECT = "j E o b; r E4 j; n E o; q E n; q E *q; r E4 *r q; c E4 *r b; f E c; f PL f; f PL *f"
MERGE = "f PL *f i; f E f; n E f; f E n; v E3 c f; s E4 c v"


@cache
def parse_recipe(recipe: str) -> tuple[RecipeStep, ...]:
    """Return the steps of a recipe, parsed once."""
    return tuple(_parse_step(text.split()) for text in recipe.split(";") if text.strip())


def _parse_step(words: list[str]) -> RecipeStep:
    if words[0] == ".":
        return RecipeStep("", "", tuple(words[1:]), "")
    if words[1] == SAME:
        return RecipeStep(words[0], SAME, (words[2],), "")
    name, width, *sources = words
    over = next((word[1:] for word in sources if word.startswith("*")), "")
    return RecipeStep(name, width, tuple(word.lstrip("*") for word in sources), over)


ALIGNMENT = 32
"""ggml's `TENSOR_ALIGNMENT`; GPUs use 128 or 256, which changes nothing at these sizes."""
NONE = -1


class FreeGaps:
    """One buffer: which stretches are free, and how far it ever reached."""

    def __init__(self) -> None:
        self.top = 0
        self._end = 0
        self._free: list[tuple[int, int]] = []

    def take_gap(self, size: int) -> int:
        """Return a place for so many bytes: the smallest gap that holds them, the last among equals, or the end."""
        best = NONE
        for index, (_, room) in enumerate(self._free):
            if room >= size and (best == NONE or room <= self._free[best][1]):
                best = index
        if best == NONE:
            place, self._end = self._end, self._end + size
            self.top = max(self.top, self._end)
            return place
        place, room = self._free.pop(best)
        if room > size:
            self._free.insert(best, (place + size, room - size))
        return place

    def give_back(self, place: int, size: int) -> None:
        """Take back a stretch, joined with the gaps beside it."""
        start, stop = place, place + size
        free_blocks: list[tuple[int, int]] = []
        for gap, room in self._free:
            if gap + room == start:
                start = gap
            elif gap == stop:
                stop += room
            else:
                free_blocks.append((gap, room))
        if stop == self._end:
            self._end = start
        else:
            free_blocks.append((start, stop - start))
            free_blocks.sort()
        self._free = free_blocks


class TensorGraph:
    """Tensors in the order they are computed. Sizes in bytes; a tensor is known by its number."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._sources: list[Sequence[int]] = []
        self._heirs: list[int] = []
        self._uses: list[int] = []
        self._output_tensors: set[int] = set()

    def add_tensor(self, size: int, sources: Sequence[int] = (), *, over: int = NONE) -> int:
        """Add a tensor and return its number. `over`: the one whose memory it takes if nobody else needs that."""
        for source in sources:
            self._uses[source] += 1
        self._sizes.append(-(-size // ALIGNMENT) * ALIGNMENT)
        self._sources.append(sources)
        self._heirs.append(over)
        self._uses.append(0)
        return len(self._sizes) - 1

    def keep_tensor(self, tensor: int) -> None:
        """Never free a tensor: it is handed out, or has a view that nobody reads."""
        self._output_tensors.add(tensor)

    def peak_bytes(self) -> int:
        """Return the bytes the whole takes."""
        gaps, uses, places = FreeGaps(), list(self._uses), dict[int, int]()
        for number, size in enumerate(self._sizes):
            over = self._heirs[number]
            if over in places and uses[over] == 1 and self._sizes[over] == size and over not in self._output_tensors:
                places[number] = places.pop(over)
            elif size:
                places[number] = gaps.take_gap(size)
            for source in self._sources[number]:
                uses[source] -= 1
                if not uses[source] and source in places and source not in self._output_tensors:
                    gaps.give_back(places.pop(source), self._sizes[source])
        return gaps.top
