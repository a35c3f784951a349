"""An estimate as a card: how fast, how much, how long a context, a bar per pool, the sum, and what would change it."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.advice import Counterfactual, Estimate, FitVerdict, PoolUse, Rate
from app.core.translation import LazyText, tr
from app.gui.screens.machine.decision import WarningList
from app.gui.screens.machine.what_if import WhatIf, key_of
from app.gui.screens.machine.wording import (
    CONFIDENCE,
    CONFIDENCE_TIPS,
    Share,
    component_shares,
    fit_words,
    plan_title,
    pool_shares,
    rate_interval,
    warnings_of,
)
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import LIMIT, BarPart, Legend, PartsBar
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel, Fold
from app.gui.widgets.rows import IconLabel, ListRow, RowList
from app.gui.widgets.text import FigureView, Label, Paragraph


class EstimateCard(Surface):
    """Shows the estimate of a `WhatIf`."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme)
        self._what_if = what_if
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(tr("Memory and speed"))
        box = VBox(theme, self, margins=(24, 20, 24, 16), gap=16)
        box.addLayout(self._make_head())
        self._error = ErrorPanel(theme)
        box.addWidget(self._error)
        self._content = QWidget()
        box.addWidget(self._content)
        inner = VBox(theme, self._content, gap=16)
        inner.addLayout(self._make_figures())
        self.bars = VBox(theme, gap=12)
        self._bars: dict[str, PoolBar] = {}
        inner.addLayout(self.bars)
        self._legend = Legend(theme)
        inner.addWidget(self._legend)
        self.sentence = Paragraph(theme, color="ink-2")
        inner.addWidget(self.sentence)
        self.warnings = WarningList(theme)
        inner.addWidget(self.warnings)
        self._components = RowList(theme, tr("Components"), inset=0)
        self._components.fill = self._components.outline = ""
        inner.addWidget(Fold(theme, tr("How each part is calculated"), self._components))
        self.counterfactuals = RowList(theme, tr("What would change this"), inset=12)
        self.counterfactuals.fill, self.counterfactuals.outline = "sunken", ""
        self._changes_title = Label(theme, tr("What would change this"), weight=500)
        inner.addWidget(self._changes_title)
        inner.addWidget(self.counterfactuals)

    def show_estimate(self) -> None:
        """Show the estimate there is now, or why there is none."""
        what_if = self._what_if
        estimate, error = what_if.estimate, what_if.estimate_error
        self.setVisible(estimate is not None or error is not None)
        self._content.setVisible(estimate is not None)
        self.fit.setVisible(estimate is not None)
        if error is None:
            self._error.hide()
        else:
            self._error.show_error(error, tr("Try again"), what_if.ask_again)
        self.title.setText(self._title_words(estimate))
        if estimate is not None:
            self._show_figures(estimate)
            self._show_pools(estimate)
            self._show_rest(estimate)

    def _make_head(self) -> PairLayout:
        head = PairLayout(self.theme, room=240)
        titles = VBox(self.theme, gap=2)
        self.title = Paragraph(self.theme, role="section")
        titles.addWidget(self.title)
        head.addLayout(titles)
        tail = HBox(self.theme)
        self.fit = FitMark(self.theme)
        tail.addWidget(self.fit)
        head.addLayout(tail)
        return head

    def _make_figures(self) -> FlowLayout:
        names = {
            "decode": tr("writing (decode)"),
            "prefill": tr("reading (prefill)"),
            "context": tr("largest context per conversation"),
            "memory": tr("memory"),
        }
        flow = FlowLayout(self.theme, gap=32, line_gap=12)
        self.figures = {key: FigureView(self.theme, name, role="title") for key, name in names.items()}
        for figure in self.figures.values():
            flow.addWidget(figure)
        return flow

    def _title_words(self, estimate: Estimate | None) -> str:
        plan = self._what_if.current_plan
        chosen_title = self._what_if.title_of(self._what_if.form.model)
        title = chosen_title or (plan.model if plan else "") or (estimate.model if estimate else "")
        return tr("{model} with {plan}", model=title, plan=plan_title(plan)) if plan else title

    def _show_figures(self, estimate: Estimate) -> None:
        _show_rate(self.figures["decode"], estimate.decode, estimate.depth)
        _show_rate(self.figures["prefill"], estimate.prefill, 0)
        context = estimate.largest_context
        self.figures["context"].show_value(
            words.format_tokens(context) if context else tr("none"),
            more=tr("{tokens} requested", tokens=words.format_tokens(estimate.context))
            if estimate.context != context
            else "",
            color="ink" if context >= estimate.context else "bad",
        )
        total = estimate.total
        self.figures["memory"].show_value(
            words.format_bytes(estimate.needed_bytes),
            tip=CONFIDENCE_TIPS[total.confidence].tr(),
            more=CONFIDENCE[total.confidence].tr(),
        )
        self.fit.show_verdict(estimate.verdict)

    def _show_pools(self, estimate: Estimate) -> None:
        for bar in set(self._bars) - {_pool_key(pool) for pool in estimate.pools}:
            self._bars.pop(bar).deleteLater()
        for pool in estimate.pools:
            key = _pool_key(pool)
            if key not in self._bars:
                self._bars[key] = PoolBar(self.theme, pool.name)
                self.bars.addWidget(self._bars[key])
            self._bars[key].show_pool(pool, pool_shares(estimate, pool))
        self._legend.set_entries(_legend_entries(estimate))

    def _show_rest(self, estimate: Estimate) -> None:
        plan = self._what_if.current_plan
        self.sentence.setText(estimate.sentence)
        self.sentence.setVisible(bool(estimate.sentence))
        is_best = plan is not None and key_of(plan) == key_of(self._what_if.usable_plans[0])
        self.warnings.show_sentences(warnings_of(plan, estimate, is_best=is_best))
        self._components.sync(
            {share.key: share for share in component_shares(estimate)},
            lambda _: ShareView(self.theme),
            ShareView.show_share,
        )
        changes = plan.counterfactuals if plan else []
        self.counterfactuals.sync(
            {change.text: change for change in changes},
            lambda _: ChangeRow(self.theme, self._what_if),
            ChangeRow.show_change,
        )
        self.counterfactuals.setVisible(bool(changes))
        self._changes_title.setVisible(bool(changes))


_VERDICTS = {
    FitVerdict.FITS: (LazyText("It fits"), "ok"),
    FitVerdict.SLOW: (LazyText("It fits, but is too slow to talk to"), "warn"),
    FitVerdict.TOO_LARGE: (LazyText("It does not fit"), "bad"),
}


class FitMark(QWidget):
    """Whether it fits, as a sign and a word."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        line = HBox(theme, self, gap=6)
        self._signs = {
            FitVerdict.FITS: IconLabel(theme, "circle-check", color="ok"),
            FitVerdict.SLOW: IconLabel(theme, "triangle-alert", color="warn"),
            FitVerdict.TOO_LARGE: IconLabel(theme, "circle-x", color="bad"),
        }
        for sign in self._signs.values():
            line.addWidget(sign)
        self._word = Label(theme, weight=600)
        line.addWidget(self._word)

    def show_verdict(self, verdict: FitVerdict) -> None:
        """Show which."""
        for value, sign in self._signs.items():
            sign.setVisible(value is verdict)
        text, color = _VERDICTS[verdict]
        self._word.setText(text.tr())
        self._word.set_color(color)
        self.setAccessibleName(self._word.text())


class PoolBar(QWidget):
    """What one pool would hold, against what is free in it."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=6)
        head = PairLayout(theme, room=120)
        name_side, usage_side = HBox(theme), HBox(theme)
        self._name = Label(theme, name, weight=500)
        self.usage = Label(theme, color="ink-2")
        name_side.addWidget(self._name)
        usage_side.addWidget(self.usage)
        head.addLayout(name_side)
        head.addLayout(usage_side)
        box.addLayout(head)
        self.bar = PartsBar(theme, name)
        box.addWidget(self.bar)

    def show_pool(self, pool: PoolUse, parts: list[Share]) -> None:
        """Show it now: the track is what is free, or what would be needed where that is more."""
        self._name.setText(pool.name)
        self.usage.setText(fit_words(pool))
        is_too_much = pool.free is not None and pool.needed_bytes + pool.margin > pool.free
        self.usage.set_color("bad" if is_too_much else "ink-2")
        whole = max(pool.free or 0, pool.needed_bytes)
        description = ", ".join(f"{share.name} {words.format_bytes(share.bytes)}" for share in parts)
        self.bar.set_parts([BarPart(share.key, share.bytes, share.color) for share in parts], whole, description)
        self.bar.set_marks(limit=max(0, pool.free - pool.margin) if pool.free is not None else None)
        self.bar.setToolTip(
            tr("{size} more is kept free.", size=words.format_bytes(pool.margin)) if pool.margin else ""
        )


class ShareView(QWidget):
    """One component: its name, how its bytes come about, and how far to trust them."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        line = HBox(theme, self, margins=(0, 8, 0, 8), gap=16)
        texts = VBox(theme, gap=2)
        self._name = Label(theme, weight=500)
        self._arithmetic = Paragraph(theme, role="mono", color="ink-2")
        texts.addWidget(self._name)
        texts.addWidget(self._arithmetic)
        line.addLayout(texts, 1)
        self._figure = FigureView(theme, tr("bytes"))
        line.addWidget(self._figure, 0, Qt.AlignmentFlag.AlignTop)

    def show_share(self, share: Share) -> None:
        """Show it now."""
        self._name.setText(share.name)
        self._arithmetic.setText(share.arithmetic)
        self._arithmetic.setVisible(bool(share.arithmetic))
        self._figure.show_value(
            words.format_bytes(share.bytes),
            tip=CONFIDENCE_TIPS[share.confidence].tr(),
            more=CONFIDENCE[share.confidence].tr(),
        )


class ChangeRow(ListRow):
    """A counterfactual: what one change would bring, and a button that makes it."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme, inset=12)
        self._what_if = what_if
        self.button = Button(theme, tr("Try it"), look=ButtonLook.PLAIN)
        self.tail.addWidget(self.button)

    def show_change(self, change: Counterfactual) -> None:
        """Show it now; one that no control can make is only told."""
        self.show_text(change.text, _change_effects(change))
        self.button.setVisible(self._what_if.can_apply(change))
        self.button.setAccessibleName(tr("Try it: {text}", text=change.text))
        self.button.set_action(partial(self._what_if.apply_change, change))


def _show_rate(figure: FigureView, rate: Rate | None, depth: int) -> None:
    if rate is None:
        figure.show_value(tr("unknown"), color="ink-3")
        return
    tip = "\n".join(filter(None, (CONFIDENCE_TIPS[rate.confidence].tr(), rate.arithmetic)))
    speed = words.format_rate(rate.tokens_per_second)
    value = tr("{rate} at {context}", rate=speed, context=words.format_tokens(depth)) if depth else speed
    figure.show_value(value, tip=tip, more=rate_interval(rate))


def _change_effects(change: Counterfactual) -> str:
    context = tr("{tokens} context", tokens=words.format_tokens(change.context)) if change.context else ""
    rate = words.format_rate(change.tokens_per_second) if change.tokens_per_second else ""
    return " · ".join(filter(None, (context, rate)))


def _legend_entries(estimate: Estimate) -> list[tuple[str, str]]:
    entries = [(share.color, f"{share.name} {words.format_bytes(share.bytes)}") for share in component_shares(estimate)]
    margin = max((pool.margin for pool in estimate.pools), default=0)
    return [*entries, (LIMIT, tr("{size} kept free", size=words.format_bytes(margin)))] if margin else entries


def _pool_key(pool: PoolUse) -> str:
    return pool.id or pool.name
