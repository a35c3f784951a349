"""Limits of a key in words, what is used of each, and what a person types for them, read."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.core import words
from app.core.keys import MOST_KEY_MODELS, NO_LIMITS, KeyInfo, KeyLimits, KeyUsage, LimitName
from app.core.translation import LazyText, tr, tr_plural

LIMIT_TITLES = {
    LimitName.REQUESTS_PER_MINUTE: LazyText("Requests a minute"),
    LimitName.TOKENS_PER_MINUTE: LazyText("Tokens a minute"),
    LimitName.TOKENS_PER_DAY: LazyText("Tokens in 24 hours"),
    LimitName.CONCURRENT_REQUESTS: LazyText("Requests at once"),
}
_REASONS = {
    LimitName.REQUESTS_PER_MINUTE: LazyText("its requests of this minute are used up"),
    LimitName.TOKENS_PER_MINUTE: LazyText("its tokens of this minute are used up"),
    LimitName.TOKENS_PER_DAY: LazyText("its tokens of these 24 hours are used up"),
    LimitName.CONCURRENT_REQUESTS: LazyText("it has as many requests answered at once as it may"),
}
MODELS_FIELD = "models"
_MOST = 1_000_000_000_000
_NUMBER = re.compile(r"(\d{1,15})([kKmM]?)")
_GAPS = re.compile(r"(?<=\d)[,_'\s](?=\d{3})")
_MILLION = 1_000_000
_LONG_COUNT = 10 * _MILLION
_FACTORS = {"": 1, "k": 1000, "m": _MILLION}
_LONGEST_MODEL = 200
_NEARLY = 0.8


class LimitLevel(NamedTuple):
    """How much of a limit is used: `fraction` of it, the figures in words, and the colour of its bar."""

    fraction: float
    figures: str
    color: str


class LimitProblem(NamedTuple):
    """What is wrong with something typed: in which field, in a sentence."""

    field: str
    sentence: str


def limit_levels(key: KeyInfo) -> dict[LimitName, LimitLevel]:
    """Return how much is used of each limit that a key has."""
    if key.usage is None:
        return {}
    limits, used_counts = key.limits or NO_LIMITS, _counts_of(key.usage)
    levels = ((name, getattr(limits, name), used_counts[name]) for name in LIMIT_TITLES)
    return {name: _limit_level(used_counts, limit) for name, limit, used_counts in levels if limit is not None}


def _limit_level(used_count: int, limit: int) -> LimitLevel:
    fraction = used_count / limit
    color = "bad" if fraction >= 1 else "warn" if fraction >= _NEARLY else "accent"
    return LimitLevel(fraction, tr("{used} of {limit}", used=_short(used_count), limit=_short(limit)), color)


def _short(count: int) -> str:
    """Return a count that has room beside the name of its limit."""
    return f"{count:,}" if count < _LONG_COUNT else f"{count / _MILLION:,.1f}M"


def _counts_of(usage: KeyUsage) -> dict[LimitName, int]:
    return {
        LimitName.REQUESTS_PER_MINUTE: usage.requests_last_minute,
        LimitName.TOKENS_PER_MINUTE: usage.tokens_last_minute,
        LimitName.TOKENS_PER_DAY: usage.tokens_last_day,
        LimitName.CONCURRENT_REQUESTS: usage.requests_in_flight,
    }


def usage_text(key: KeyInfo) -> str:
    """Return what a key is used for now, as far as no limit shows it, and which models it may use."""
    usage, levels = key.usage, limit_levels(key)
    models = (key.limits or NO_LIMITS).models
    parts = [tr("only {models}", models=", ".join(models))] if models else []
    if usage is None:
        return " · ".join(parts)
    counts = {
        LimitName.CONCURRENT_REQUESTS: tr("{count:,} running", count=usage.requests_in_flight),
        LimitName.REQUESTS_PER_MINUTE: tr_plural(
            "{count:,} request this minute", "{count:,} requests this minute", usage.requests_last_minute
        ),
        LimitName.TOKENS_PER_MINUTE: tr_plural(
            "{count:,} token this minute", "{count:,} tokens this minute", usage.tokens_last_minute
        ),
        LimitName.TOKENS_PER_DAY: tr_plural(
            "{count:,} token in 24 hours", "{count:,} tokens in 24 hours", usage.tokens_last_day
        ),
    }
    nonzero = _counts_of(usage)
    return " · ".join([*parts, *(text for name, text in counts.items() if nonzero[name] and name not in levels)])


def hold_text(key: KeyInfo) -> str:
    """Return why requests with a key are refused now, or that some were in the last hour; empty otherwise."""
    usage = key.usage
    if usage is None:
        return ""
    refused_words = (
        tr_plural(
            "{count:,} request was refused in the last hour.",
            "{count:,} requests were refused in the last hour.",
            usage.refused_last_hour,
        )
        if usage.refused_last_hour
        else ""
    )
    if usage.limit_reached is None:
        return refused_words
    reason = _REASONS[usage.limit_reached].tr()
    now = (
        tr("Held back: {reason}.", reason=reason)
        if usage.wait_s is None
        else tr(
            "Held back: {reason}. Free again in {duration}.",
            reason=reason,
            duration=words.format_duration(max(usage.wait_s, 1.0)),
        )
    )
    return " ".join(part for part in (now, refused_words) if part)


def limit_texts(limits: KeyLimits) -> dict[str, str]:
    """Return what stands in the fields for limits, by the names of the limits."""
    numbers = {name.value: getattr(limits, name) for name in LIMIT_TITLES}
    texts = {name: "" if number is None else f"{number:,}" for name, number in numbers.items()}
    return {**texts, MODELS_FIELD: ", ".join(limits.models)}


def continue_names(text: str, names: Sequence[str]) -> list[str]:
    """Return which models may follow in a list of names: those with its unfinished last word, at their start first.

    What stands in it already is not offered again.
    """
    *entered_names, last = (part.strip().casefold() for part in text.split(","))
    matches = [name for name in names if last in name.casefold() and name.casefold() not in {*entered_names, last}]
    return sorted(matches, key=lambda name: (not name.casefold().startswith(last), name.casefold()))


def put_name(text: str, name: str) -> str:
    """Return a list of names with its unfinished last word replaced by a name."""
    entered_names = [part.strip() for part in text.split(",")[:-1] if part.strip()]
    return ", ".join([*entered_names, name])


def read_limits(texts: Mapping[str, str]) -> KeyLimits | LimitProblem:
    """Return the limits that are typed, or the first thing wrong with them."""
    fields: dict[str, object] = {}
    for name in LIMIT_TITLES:
        text = texts[name].strip()
        number = _read_number(text) if text else None
        if text and number is None:
            return LimitProblem(
                name,
                tr(
                    "{text} is not a number from 1 to {most:,}. Leave the field empty for no limit.",
                    text=f"“{text[:40]}”",
                    most=_MOST,
                ),
            )
        fields[name.value] = number
    models = [name for name in (part.strip() for part in re.split(r"[,\n]", texts[MODELS_FIELD])) if name]
    models = list(dict.fromkeys(models))
    if len(models) > MOST_KEY_MODELS or any(len(name) > _LONGEST_MODEL for name in models):
        return LimitProblem(
            MODELS_FIELD,
            tr(
                "At most {count} models, each with a name of up to {length} characters.",
                count=MOST_KEY_MODELS,
                length=_LONGEST_MODEL,
            ),
        )
    return msgspec.convert({**fields, MODELS_FIELD: models}, KeyLimits)


def _read_number(text: str) -> int | None:
    match = _NUMBER.fullmatch(_GAPS.sub("", text))
    if match is None:
        return None
    number = int(match[1]) * _FACTORS[match[2].lower()]
    return number if 1 <= number <= _MOST else None
