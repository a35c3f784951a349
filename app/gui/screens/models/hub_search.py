"""State of Discover: what is looked for, what was found, and the one model that is looked at.

Before a word is typed these are the catalogue's models for a use, by families. Words are looked for in the catalogue,
which needs no network, and on the hub.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.core import words
from app.core.advice import FitVerdict, Rate
from app.core.errors import ErrorBody
from app.core.hub import (
    CatalogueInfo,
    HubCard,
    HubCompanion,
    HubModel,
    HubPick,
    HubQuery,
    HubResults,
    HubSort,
    HubTask,
    HubUse,
    HubVariant,
)
from app.core.licences import licence_words
from app.core.models import CompanionKind
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.shell.contract import Shell

_PURPOSES = {
    CompanionKind.DRAFT: LazyText("Draft model for speculative decoding"),
    CompanionKind.LORA: LazyText("LoRA adapter that changes how it writes"),
}
_PAUSE_MS = 350
"""After the last key before the hub is asked."""
_FEW_THOUSANDS, _MILLION = 1e3, 1e6
SIZES = {
    LazyText("Any size"): (None, None),
    LazyText("Up to 4B"): (None, 4_500_000_000),
    LazyText("4B to 9B"): (4_000_000_000, 9_500_000_000),
    LazyText("9B to 35B"): (9_000_000_000, 35_500_000_000),
    LazyText("Above 35B"): (35_000_000_000, None),
}
SORTS = {
    HubSort.DOWNLOADS: LazyText("Most downloaded"),
    HubSort.LIKES: LazyText("Most liked"),
    HubSort.RECENT: LazyText("Newest"),
    HubSort.TRENDING: LazyText("Trending"),
}
TASKS = {
    None: LazyText("Any task"),
    HubTask.CHAT: LazyText("Chat"),
    HubTask.VISION: LazyText("Vision"),
    HubTask.EMBEDDING: LazyText("Embedding"),
    HubTask.RERANK: LazyText("Rerank"),
}
FORMATS = ("", "gguf", "mlx", "exl3", "exl2", "awq", "gptq", "fp8", "nvfp4", "openvino", "onnx-genai")
LICENCES = ("", "apache-2.0", "mit", "gemma", "llama3.1", "llama3.2", "llama3.3", "cc-by-nc-4.0")
AGES = {LazyText("Any age"): None, LazyText("Changed this month"): 31, LazyText("Changed this year"): 366}
USES = {
    HubUse.CHAT: LazyText("Chat"),
    HubUse.CODING: LazyText("Coding"),
    HubUse.VISION: LazyText("Vision"),
    HubUse.REASONING: LazyText("Reasoning"),
    HubUse.EMBEDDING: LazyText("Embedding"),
    HubUse.RERANK: LazyText("Reranking"),
    HubUse.AUTOCOMPLETE: LazyText("Code completion"),
}


FAMILIES_AT_FIRST, FAMILIES_MORE = 12, 20
"""Families of the catalogue shown at once: what comes after is slower or worse here."""
_FASTEST = 100.0
"""Tokens per second that fill the bar; half of it, on its logarithmic scale, is what people can talk to."""
_WRITING_USES = frozenset({HubUse.CHAT, HubUse.CODING, HubUse.VISION, HubUse.REASONING})


class PickFamily(NamedTuple):
    """Models of one series, the best for this machine first."""

    name: str
    picks: list[HubPick]

    @property
    def title(self) -> str:
        """Its name, or that of its only model."""
        return self.picks[0].name if len(self.picks) == 1 else self.name


class RepositorySheet(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the repository that is looked at."""

    card: str
    """Key of its card."""
    repository: str
    model: HubModel | None = None
    error: ErrorBody | None = None


class HubSearchModel(QObject):
    """Everything Discover shows."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self.query = HubQuery()
        self.use = HubUse.CHAT
        self.picks: list[HubPick] = []
        self.matches: list[HubPick] = []
        """Models of the catalogue with the words in their names."""
        self.open_families: set[str] = set()
        self.family_limit = FAMILIES_AT_FIRST
        self.cards: list[HubCard] = []
        self.next = ""
        self.note = ""
        self.error: ErrorBody | None = None
        self.is_looking = False
        self.sheet: RepositorySheet | None = None
        self._call: GatewayCall | None = None
        self._sheet_call: GatewayCall | None = None
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_PAUSE_MS)
        self._soon.timeout.connect(self.search_now)

    @property
    def is_searching(self) -> bool:
        """Whether the hub is looked through, rather than the catalogue's advice shown."""
        return bool(self.query.text or self.query != HubQuery(sort=self.query.sort))

    @property
    def best(self) -> HubPick | None:
        """The model that is recommended for this machine; None where none can be."""
        return next((pick for pick in self.picks if pick.is_best), None)

    @property
    def fast(self) -> HubPick | None:
        """The one that stands beside it because it writes much faster."""
        return next((pick for pick in self.picks if pick.is_fast), None)

    def show_first_picks(self) -> None:
        """Show something to begin with: what suits this machine now. What was shown stays until it is known."""
        if not self.is_looking:
            self.fetch_picks(self.use)

    def fetch_picks(self, use: HubUse) -> None:
        """Ask what the catalogue has for a use."""
        if use is not self.use:
            self.picks, self.family_limit = [], FAMILIES_AT_FIRST
        self.use = use

        def set_picks(picks: list[HubPick]) -> None:
            if self.use is use:
                self.picks, self.error = picks, None
                self.changed.emit()

        self._api.get(f"/hub/catalogue?use={use.value}", list[HubPick], set_picks, self._store_error)
        self.changed.emit()

    def toggle_family(self, name: str) -> None:
        """Show a family's models, or fold them."""
        self.open_families ^= {name}
        self.changed.emit()

    def show_more_families(self) -> None:
        """Show those of the catalogue that are further from what suits this machine, too."""
        self.family_limit += FAMILIES_MORE
        self.changed.emit()

    def refresh_catalogue(self) -> None:
        """Have the gateway fetch the catalogue anew. A refusal is shown in place, and nothing changes."""

        def show_newest(info: CatalogueInfo) -> None:
            self._shell.show_toast(
                tr_plural(
                    "The catalogue dates from {issued} and lists {count} model.",
                    "The catalogue dates from {issued} and lists {count} models.",
                    info.models,
                    issued=info.issued,
                )
            )
            self.fetch_picks(self.use)

        self._api.post("/hub/catalogue", None, kind=CatalogueInfo, then=show_newest, on_error=self._store_error)

    def note_look(self) -> None:
        """Have the gateway remember that what the catalogue has now was seen."""
        if self.picks:
            self._api.post("/hub/catalogue/look", None, kind=type(None), then=lambda _none: None)

    def type_query(self, text: str) -> None:
        """Look for words once nothing more is typed for a moment."""
        self.query = msgspec.structs.replace(self.query, text=text.strip()[:200], page="")
        self._soon.start()

    def set_filters(self, **fields: object) -> None:
        """Change other parts of what is looked for, and look at once."""
        self.query = msgspec.structs.replace(self.query, page="", **fields)
        self.search_now()

    def search_now(self) -> None:
        """Ask the hub. What was found before stays until there is an answer."""
        self._soon.stop()
        self._cancel_search()
        self._fetch_matches(self.query.text)
        if not self.is_searching:
            self.cards, self.next, self.note, self.error = [], "", "", None
            self.changed.emit()
            return
        self._fetch_page(self.query, is_more=False)

    def fetch_more(self) -> None:
        """Ask for the next page."""
        if self.next and not self.is_looking:
            self._fetch_page(msgspec.structs.replace(self.query, page=self.next), is_more=True)

    def toggle_sheet(self, key: str, repository: str) -> None:
        """Look at one repository of a card, or put the sheet away if it is the one looked at."""
        if self._sheet_call is not None:
            self._sheet_call.cancel()
        if self.sheet is not None and (self.sheet.card, self.sheet.repository) == (key, repository):
            self.sheet = None
            self.changed.emit()
            return
        sheet = self.sheet = RepositorySheet(card=key, repository=repository)

        def set_model(model: HubModel) -> None:
            self.sheet = msgspec.structs.replace(sheet, model=model)
            self.changed.emit()

        def set_error(error: ErrorBody) -> None:
            self.sheet = msgspec.structs.replace(sheet, error=error)
            self.changed.emit()

        path = f"/hub/model?{urlencode({'name': repository})}"
        self._sheet_call = self._api.get(path, HubModel, set_model, set_error)
        self.changed.emit()

    def _fetch_page(self, query: HubQuery, *, is_more: bool) -> None:
        def show_results(results: HubResults) -> None:
            self.is_looking, self.error = False, None
            self.cards = merge_cards(self.cards, results.cards) if is_more else results.cards
            self.next, self.note = results.next, results.note
            self.changed.emit()

        self.is_looking = True
        parameters = {name: str(value) for name, value in msgspec.to_builtins(query).items() if value not in {None, ""}}
        self._call = self._api.get(f"/hub/search?{urlencode(parameters)}", HubResults, show_results, self._store_error)
        self.changed.emit()

    def _fetch_matches(self, text: str) -> None:
        def set_matches(picks: list[HubPick]) -> None:
            if self.query.text == text:
                self.matches = picks
                self.changed.emit()

        if text:
            path = f"/hub/catalogue?{urlencode({'text': text})}"
            self._api.get(path, list[HubPick], set_matches, self._store_error)
        else:
            self.matches = []

    def _cancel_search(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self.is_looking = False

    def _store_error(self, error: ErrorBody) -> None:
        self.is_looking, self.error = False, error
        self.changed.emit()


def merge_cards(before: list[HubCard], more: list[HubCard]) -> list[HubCard]:
    """Return two pages as one: a model that is on both keeps its place."""
    known_bases = {card.base for card in before}
    return [*before, *(card for card in more if card.base not in known_bases)]


def default_repository(card: HubCard) -> str:
    """Return the repository to look at first: the most downloaded in the format its figures are for."""
    fitting_repositories = (
        entry.repository for entry in card.repositories if card.format in entry.formats and not entry.problem
    )
    return next(fitting_repositories, card.repositories[0].repository)


_FIT_SIGNS = {
    FitVerdict.FITS: ("ok", LazyText("Fits")),
    FitVerdict.SLOW: ("warn", LazyText("Fits, but slow")),
    FitVerdict.TOO_LARGE: ("bad", LazyText("Too large")),
    None: ("ink-3", LazyText("Unknown")),
}


def fit_sign(card: HubCard | HubVariant) -> tuple[str, str]:
    """Return the colour and the word of how something fits."""
    color, message = _FIT_SIGNS[card.verdict]
    return color, message.tr()


def card_figures(card: HubCard) -> str:
    """Return what a card takes, in a few words: all of it is an estimate."""
    parts = [tr("about {size}", size=words.format_bytes(card.memory_bytes))] if card.memory_bytes else []
    if card.decode is not None and card.fits:
        parts.append(f"~{words.format_rate(card.decode.tokens_per_second)}")
    return " · ".join(parts)


def card_facts(card: HubCard) -> str:
    """Return the quiet line of a card: whose it is, what of it there is, how many took it."""
    first = card.repositories[0]
    parts = [card.base.partition("/")[0]]
    if len(card.repositories) > 1:
        parts.append(tr_plural("{count} repository", "{count} repositories", len(card.repositories)))
    if first.licence:
        parts.append(first.licence)
    if card.downloads:
        parts.append(
            tr_plural("{number} download", "{number} downloads", card.downloads, number=format_count(card.downloads))
        )
    if card.unchecked:
        parts.append(tr("unchecked: nobody verified that it is there"))
    return first.problem or " · ".join(parts)


def list_families(picks: Sequence[HubPick]) -> list[PickFamily]:
    """Return picks by family, in the order of each family's first."""
    families: dict[str, list[HubPick]] = {}
    for pick in picks:
        families.setdefault(pick.family or pick.name, []).append(pick)
    return [PickFamily(name, members) for name, members in families.items()]


def pick_sign(pick: HubPick) -> tuple[str, str]:
    """Return the colour and the words of how a model runs here."""
    if pick.needs:
        return "warn", pick.needs
    if pick.card.verdict is FitVerdict.SLOW:
        return "warn", tr("Runs, but too slow to talk to")
    if pick.card.verdict is FitVerdict.TOO_LARGE and pick.card.memory_bytes:
        return "bad", tr("Too large: needs about {size}", size=words.format_bytes(pick.card.memory_bytes))
    return fit_sign(pick.card)


def pick_facts(pick: HubPick) -> str:
    """Return the last line of a model of the catalogue: what is downloaded, and what is allowed."""
    size = pick.card.download_bytes
    parts = [tr("about {size}", size=words.format_bytes(size))] if size else []
    parts.append(licence_words(pick.licence))
    return " · ".join(parts)


_USUAL_BYTES_PER_S = 12.5e6
"""100 Mbit/s, until a download shows what the connection gives."""


def download_time(pick: HubPick, bytes_per_s: float | None) -> str:
    """Return how long a download takes, by what another one comes with; empty where its size is unknown."""
    size = pick.card.download_bytes
    if not size or pick.is_here:
        return ""
    duration = words.format_duration(size / (bytes_per_s or _USUAL_BYTES_PER_S))
    if bytes_per_s:
        return tr("Downloads in about {duration}, as fast as the other download.", duration=duration)
    return tr("Downloads in about {duration} at 100 Mbit/s; chat with the Guide meanwhile.", duration=duration)


def pick_description(pick: HubPick) -> str:
    """Return what a screen reader says of a model of the catalogue: all that its row shows but for the bars."""
    parts = [words.format_purpose(pick.good_for), pick_sign(pick)[1], pick_facts(pick)]
    if pick.card.unchecked:
        parts.append(tr("unchecked: nobody verified that it is there"))
    return " · ".join(filter(None, parts))


def quality_level(pick: HubPick, best: int) -> tuple[float, str, str]:
    """Return how far the bar of a model's quality goes, its value, and what that means."""
    if not pick.quality or not best:
        return 0.0, tr("unknown"), tr("No published results tell how good its answers are.")
    value = tr("about {quality}", quality=str(pick.quality)) if pick.is_quality_derived else str(pick.quality)
    tip = (
        tr("Derived from another size of the same series; the best model of the catalogue has {best}.", best=str(best))
        if pick.is_quality_derived
        else tr("By published results; the best model of the catalogue has {best}.", best=str(best))
    )
    return pick.quality / best, value, tip


def speed_level(pick: HubPick) -> tuple[float, str, str]:
    """Return how far the bar of a model's speed goes, its value, and what that means."""
    rate = pick.card.decode
    if pick.card.fits is False:
        return 0.0, tr("too large"), ""
    if rate is None:
        is_needless = pick.use not in _WRITING_USES
        return 0.0, tr("writes no text") if is_needless else tr("unknown"), ""
    fraction = math.log10(max(rate.tokens_per_second, 1.0)) / math.log10(_FASTEST)
    return fraction, words.format_rate(rate.tokens_per_second), rate_words(rate)


def family_facts(family: PickFamily) -> str:
    """Return the quiet line of a family: how large its models are, and which suits this machine."""
    sizes = sorted(pick.card.parameters for pick in family.picks if pick.card.parameters)
    parts = []
    if sizes:
        least, most = words.format_parameters(sizes[0]), words.format_parameters(sizes[-1])
        parts.append(least if least == most else tr("{least} to {most}", least=least, most=most))
    if family.picks[0].card.fits:
        parts.append(tr("best here: {title}", title=family.picks[0].name))
    return " · ".join(parts)


def format_count(number: int) -> str:
    """Return a count of downloads or likes as people say it: "1.2M"."""
    if number >= _MILLION:
        return f"{number / _MILLION:.1f}M"
    return f"{number / _FEW_THOUSANDS:.0f}k" if number >= _FEW_THOUSANDS else str(number)


def variant_facts(variant: HubVariant) -> str:
    """Return the quiet line of a variant: size, context, speed, and what it costs in quality."""
    parts = [words.format_bytes(variant.size_bytes + variant.projector_bytes)]
    if variant.fits and variant.largest_context:
        parts.append(tr("{tokens} context", tokens=words.format_tokens(variant.largest_context)))
    if variant.fits and variant.decode is not None:
        parts.append(rate_words(variant.decode))
    if variant.quality:
        parts.append(variant.quality.rstrip("."))
    return " · ".join(parts)


def companions_sentence(model: HubModel) -> str:
    """Return what comes along unasked, and that there is more; empty for nothing."""
    variant = next((variant for variant in model.variants if variant.projector), None)
    sentences = (
        [
            tr(
                "Comes with {projector} ({size}), which lets it see images.",
                projector=variant.projector,
                size=words.format_bytes(variant.projector_bytes),
            )
        ]
        if variant
        else []
    )
    if model.companions:
        sentences.append(tr("These go with it. They are downloaded only if you choose them:"))
    return " ".join(sentences)


def companion_facts(companion: HubCompanion) -> str:
    """Return the quiet line of a file that goes with a model: what it is for."""
    return f"{words.format_bytes(companion.size_bytes)} · {_PURPOSES.get(companion.kind, companion.kind.value)}"


def rate_words(rate: Rate) -> str:
    """Return a rate with its interval."""
    return tr(
        "{rate:.0f} tok/s ({low:.0f} to {high:.0f})",
        rate=rate.tokens_per_second,
        low=rate.low,
        high=rate.high,
    )


def pull_name(model: HubModel, variant: HubVariant) -> str:
    """Return what to ask for to get a variant."""
    if variant.revision:
        return f"{model.repository}@{variant.revision}"
    revision = "" if model.revision == "main" else f"@{model.revision}"
    tag = f":{variant.quantization}" if len(model.variants) > 1 and variant.quantization else ""
    return f"{model.repository}{revision}{tag}"
