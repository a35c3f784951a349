"""Examine the Guide as the app runs it: the GGUF, llama.cpp and its HTTP server.

Every trained phrasing and every held-out paraphrase is asked at temperature 0. An
answer is right when no other topic's answer is nearer to it and at least nine
tenths of it agree. Needs xllamacpp and the standard library only.
"""

from __future__ import annotations

import argparse
import difflib
import http.client
import json
import random
import sys
import tomllib
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import xllamacpp
from topics import HERE, Topic, load_topics, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

SIMILARITY_NEEDED = 0.9
ASK_NEEDED = 0.95
HELD_OUT_NEEDED = 0.80
LONGEST_ANSWER_TOKENS = 160
TIMEOUT_S = 120.0
REPORT_VERSION = 1


@dataclass(frozen=True)
class Answered:
    """One question with what came back."""

    topic_id: str
    question: str
    reply: str
    is_right: bool


@dataclass(frozen=True)
class Setting:
    """How the examination is held."""

    model: Path
    turns: int
    slots: int
    context: int
    share: float
    seed: int


class Server:
    """llama.cpp's HTTP server inside this process, on a port of its own choosing."""

    def __init__(self, setting: Setting) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(setting.model)
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.n_ctx = setting.context * setting.slots
        params.n_parallel = setting.slots
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = 1
        params.verbosity = 0
        self._server = xllamacpp.Server(params)
        self._address = urllib.parse.urlsplit(self._server.listening_address).netloc

    def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """Post JSON and return the JSON that comes back; raise on a refusal."""
        connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode("utf-8")
        finally:
            connection.close()
        if response.status != http.client.OK:
            message = f"{path} answered {response.status}: {text}"
            raise RuntimeError(message)
        document: dict[str, object] = json.loads(text)
        return document

    def reply(self, messages: Sequence[dict[str, str]], temperature: float = 0.0) -> str:
        """Return the Guide's answer to the conversation."""
        body = {"messages": list(messages), "temperature": temperature, "max_tokens": LONGEST_ANSWER_TOKENS}
        document = self.post("/v1/chat/completions", body)
        choices = document["choices"]
        return str(choices[0]["message"]["content"]) if isinstance(choices, list) else ""


class Examination:
    """Asks questions and marks the answers."""

    def __init__(self, topics: tuple[Topic, ...], setting: Setting) -> None:
        self._topics = topics
        self._setting = setting
        self._owners = {normalise(topic.answer): topic.id for topic in topics}
        self._server = Server(setting)

    def hold(self, questions: Sequence[tuple[str, str]]) -> list[Answered]:
        """Ask (topic id, question) pairs, some at a time, and keep their order."""
        with ThreadPoolExecutor(self._setting.slots) as pool:
            return list(pool.map(self._ask, questions))

    def _ask(self, pair: tuple[str, str]) -> Answered:
        topic_id, question = pair
        reply = self._server.reply([*self._previous_turns(question), {"role": "user", "content": question}])
        return Answered(topic_id, question, reply, is_right=self._owner(reply) == topic_id)

    def _previous_turns(self, question: str) -> list[dict[str, str]]:
        rng = random.Random(f"{self._setting.seed} {question}")  # noqa: S311  # reproducible, not secret
        messages: list[dict[str, str]] = []
        for _ in range(self._setting.turns):
            topic = rng.choice(self._topics)
            messages.append({"role": "user", "content": rng.choice(topic.ask)})
            messages.append({"role": "assistant", "content": topic.answer})
        return messages

    def _owner(self, reply: str) -> str | None:
        """Return the topic whose answer is nearest, if it is near enough."""
        text = normalise(reply)
        nearest = [text] if text in self._owners else []
        nearest = nearest or difflib.get_close_matches(text, list(self._owners), n=1, cutoff=SIMILARITY_NEEDED)
        return self._owners[nearest[0]] if nearest else None


def main(arguments: list[str] | None = None) -> int:
    """Hold both examinations, report, and return 1 when one is failed."""
    options = _parse(arguments)
    setting = Setting(options.model, options.turns, options.slots, options.context, options.share, options.seed)
    topics = load_topics()
    examination = Examination(topics, setting)
    ask = examination.hold(_sample([(topic.id, text) for topic in topics for text in topic.ask], setting))
    held_out = examination.hold(_sample([(topic.id, text) for topic in topics for text in topic.held_out], setting))
    blind = examination.hold(_sample(_blind(), setting))
    is_passed = _accuracy(ask) >= ASK_NEEDED and _accuracy(held_out) >= HELD_OUT_NEEDED
    report: dict[str, object] = {
        "version": REPORT_VERSION,
        "turns": setting.turns,
        "ask": {"count": len(ask), "accuracy": round(_accuracy(ask), 4)},
        "held_out": {"count": len(held_out), "accuracy": round(_accuracy(held_out), 4)},
        "blind": {"count": len(blind), "accuracy": round(_accuracy(blind), 4)},
        "is_passed": is_passed,
        "wrong": [_mistake(answered) for answered in ask + held_out + blind if not answered.is_right],
    }
    _write(report, as_json=options.json, with_wrong=options.wrong)
    return 0 if is_passed else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=HERE.parent / "guide-q8_0.gguf")
    parser.add_argument("--turns", type=int, default=0, help="unrelated questions and answers put before each question")
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions to ask, drawn at random")
    parser.add_argument("--slots", type=int, default=2, help="questions asked at the same time")
    parser.add_argument("--context", type=int, default=4096, help="context length of each slot, in tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_argument("--wrong", action="store_true", help="list the questions answered wrongly")
    return parser.parse_args(arguments)


def _blind() -> list[tuple[str, str]]:
    """Return the questions that nothing was decided by; they are told beside the examinations and pass nothing."""
    topics = tomllib.loads((HERE / "blind.toml").read_text("utf-8"))
    return [(topic, question) for topic, questions in topics.items() for question in questions]


def _sample(questions: list[tuple[str, str]], setting: Setting) -> list[tuple[str, str]]:
    count = round(len(questions) * setting.share)
    if count >= len(questions):
        return questions
    return random.Random(setting.seed).sample(questions, count)  # noqa: S311  # reproducible, not secret


def _accuracy(answers: Sequence[Answered]) -> float:
    return sum(answered.is_right for answered in answers) / max(1, len(answers))


def _mistake(answered: Answered) -> dict[str, str]:
    return {"topic": answered.topic_id, "question": answered.question, "reply": answered.reply}


def _write(report: dict[str, object], *, as_json: bool, with_wrong: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        return
    for name in ("ask", "held_out", "blind"):
        sys.stdout.write(f"{name}: {report[name]}\n")
    wrong = report["wrong"]
    if with_wrong and isinstance(wrong, list):
        sys.stdout.writelines(f"{item['topic']}: {item['question']!r} -> {item['reply']!r}\n" for item in wrong)
    sys.stdout.write(f"passed: {report['is_passed']}\n")


if __name__ == "__main__":
    raise SystemExit(main())
