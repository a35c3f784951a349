"""Train the Guide from its text and write the weights and the vocabulary.

Run `python resources/guide/training/train.py`; the result lies in `--out` for
`export.py`. Seeds decide every draw; only rounding differs between machines and
between numbers of threads.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from augment import Rates, Variator, load_wording
from corpus import IGNORED, LEARN_ANSWERS, LEARN_QUESTIONS, Batch, Corpus, Mix
from model import Guide, Shape
from offtopic import OffTopic
from probe import exact_share
from tokenizer import train_tokenizer
from tokenizers import Tokenizer
from topics import find_leaks, load_topics
from torch.nn import functional

if TYPE_CHECKING:
    from topics import Topic


PROGRESS_STEPS = 50
PROBE_STEPS = 300


@dataclass(frozen=True)
class Stage:
    """One pass of the schedule: warm up, learn, cool down."""

    seed: int
    steps: int
    rate: float
    mix: Mix


@dataclass(frozen=True)
class Recipe:
    """What all stages share."""

    batch_tokens: int = 3072
    longest: int = 1024
    warm_up_steps: int = 100
    final_rate_share: float = 0.02
    weight_decay: float = 0.1
    dropout: float = 0.1
    gradient_limit: float = 1.0


STAGES = {
    "answers": Stage(seed=20, steps=2000, rate=3e-3, mix=LEARN_ANSWERS),
    "questions": Stage(seed=21, steps=1300, rate=1.5e-3, mix=LEARN_QUESTIONS),
    "polish": Stage(seed=22, steps=550, rate=1e-3, mix=LEARN_QUESTIONS),
}


@dataclass(frozen=True)
class Run:
    """What one training works on."""

    recipe: Recipe
    topics: tuple[Topic, ...]
    tokenizer: Tokenizer
    guide: Guide
    started: float

    def minutes(self) -> float:
        """Return how long the training has taken."""
        return round((time.monotonic() - self.started) / 60, 1)

    def probe(self) -> dict[str, float]:
        """Return the shares answered word for word, of one phrasing per topic and of the held-out ones."""
        known = [(topic.ask[-1], topic.answer) for topic in self.topics]
        unseen = [(text, topic.answer) for topic in self.topics for text in topic.held_out]
        return {
            "ask": round(exact_share(self.guide, self.tokenizer, known), 4),
            "held_out": round(exact_share(self.guide, self.tokenizer, unseen), 4),
        }


def main(arguments: list[str] | None = None) -> int:
    """Train the asked stages one after the other, and save after each."""
    options = _parse(arguments)
    topics = load_topics()
    leaks = find_leaks(topics)
    if leaks:
        _say("\n".join(leaks))
        return 1
    torch.set_num_threads(options.threads)
    run = _prepare(topics, options.start)
    for name in options.stages:
        loss = _train(run, STAGES[name])
        _save(run, options.out, {"stage": name, "final_loss": round(loss, 4)})
    return 0


def _prepare(topics: tuple[Topic, ...], start: Path | None) -> Run:
    """Begin anew, or with the vocabulary and weights of an earlier stage."""
    recipe, seed = Recipe(), STAGES["answers"].seed
    torch.manual_seed(seed)
    guide = Guide(Shape(), recipe.dropout)
    if start:
        tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
        guide.load_state_dict(torch.load(start / "weights.pt", weights_only=True))
    else:
        tokenizer = train_tokenizer(_vocabulary_texts(topics, seed))
    return Run(recipe, topics, tokenizer, guide, time.monotonic())


def _save(run: Run, folder: Path, result: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run.tokenizer.save(str(folder / "tokenizer.json"))
    torch.save(run.guide.state_dict(), folder / "weights.pt")
    sizes = {"parameters": sum(weight.numel() for weight in run.guide.parameters()), "topics": len(run.topics)}
    report = json.dumps({**sizes, **result, "word_for_word": run.probe(), "minutes": run.minutes()}, indent=2)
    (folder / "report.json").write_text(report + "\n", encoding="utf-8")
    sys.stdout.write(report + "\n")


def _draws(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # reproducible, not secret


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/guide"), help="folder for weights and vocabulary")
    parser.add_argument("--start", type=Path, help="folder of an earlier stage to go on from")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--threads", type=int, default=1, help="more are slower on a busy machine")
    return parser.parse_args(arguments)


def _vocabulary_texts(topics: tuple[Topic, ...], seed: int) -> list[str]:
    """Return answers and questions, plain and varied, for the tokenizer to count."""
    rng = _draws(seed)
    variator = Variator(load_wording(), Rates(typo_per_word=0.0))
    off_topic = OffTopic()
    texts = [topic.answer for topic in topics] * 3
    for topic in topics:
        for question in topic.ask:
            texts += [question.lower(), variator.vary(question, rng)]
    texts += [off_topic.question(topic_id, rng) for topic_id in off_topic.topic_ids for _ in range(20)]
    return [*texts, *(["system\n", "user\n", "assistant\n", "tool\n"] * 1000)]


def _train(run: Run, stage: Stage) -> float:
    """Return the mean loss of the last hundred steps."""
    torch.manual_seed(stage.seed)
    optimiser = _optimiser(run.guide, stage.rate, run.recipe.weight_decay)
    corpus = Corpus(run.topics, run.tokenizer, _draws(stage.seed), stage.mix)
    batches = corpus.batches(run.recipe.batch_tokens, longest=run.recipe.longest)
    recent: deque[float] = deque(maxlen=100)
    run.guide.train()
    for step in range(1, stage.steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = _rate(step, stage, run.recipe)
        recent.append(_step(run.guide, next(batches), optimiser, run.recipe.gradient_limit))
        if step % PROGRESS_STEPS == 0:
            _say(f"step {step}: loss {sum(recent) / len(recent):.4f} after {run.minutes()} minutes")
        if step % PROBE_STEPS == 0:
            _say(f"step {step}: word for word {run.probe()}")
    return sum(recent) / len(recent)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _step(guide: Guide, batch: Batch, optimiser: torch.optim.Optimizer, gradient_limit: float) -> float:
    with torch.autocast("cpu", torch.bfloat16):
        states = guide(batch.ids, batch.positions)
        chosen = batch.targets != IGNORED
        logits = guide.logits(states[chosen])
    loss = functional.cross_entropy(logits.float(), batch.targets[chosen])
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    torch.nn.utils.clip_grad_norm_(guide.parameters(), gradient_limit)
    optimiser.step()
    return float(loss.detach())


def _optimiser(guide: Guide, rate: float, weight_decay: float) -> torch.optim.Optimizer:
    matrices = [weight for weight in guide.parameters() if weight.dim() > 1]
    vectors = [weight for weight in guide.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))


def _rate(step: int, stage: Stage, recipe: Recipe) -> float:
    """Warm up linearly, then follow a cosine down to a small share."""
    if step < recipe.warm_up_steps:
        return stage.rate * (step + 1) / recipe.warm_up_steps
    progress = (step - recipe.warm_up_steps) / max(1, stage.steps - recipe.warm_up_steps)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return stage.rate * (recipe.final_rate_share + (1 - recipe.final_rate_share) * cosine)


if __name__ == "__main__":
    raise SystemExit(main())
