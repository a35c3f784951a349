"""The engine decision as a card: the sentence, its reasons, the runner-up and its price, and what else there is."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.advice import Plan, ServicePlan
from app.core.engines import Reason
from app.core.translation import tr, tr_plural
from app.gui.screens.machine.drawing import Remark
from app.gui.screens.machine.what_if import WhatIf, key_of
from app.gui.screens.machine.wording import plan_availability, plan_costs, plan_tags, plan_title, reason_figure
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.panels import Fold
from app.gui.widgets.rows import IconLabel, ListRow, RowList, Tag
from app.gui.widgets.text import Label, Paragraph

_FIRST_REASONS = 5


class DecisionCard(Surface):
    """Shows the plans of a `WhatIf`; a press looks at the sums of another plan."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme)
        self._what_if = what_if
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(tr("Recommended engine"))
        box = VBox(theme, self, margins=(24, 20, 24, 16), gap=12)
        self.sentence = Paragraph(theme, role="title")
        box.addWidget(self.sentence)
        self.recommendation = Paragraph(theme)
        box.addWidget(self.recommendation)
        self._tags = FlowLayout(theme, gap=6)
        box.addLayout(self._tags)
        self._shown_tags: list[str] = []
        self.reasons, self.more_reasons = (
            RowList(theme, tr("Reasons"), inset=0),
            RowList(theme, tr("More reasons"), inset=0),
        )
        box.addWidget(self.reasons)
        self._reasons_fold = Fold(theme, tr("More reasons"), self.more_reasons)
        box.addWidget(self._reasons_fold)
        self.service = Paragraph(theme, weight=500)
        box.addWidget(self.service)
        self.service_reasons = RowList(theme, tr("How everybody is served"), inset=0)
        box.addWidget(self.service_reasons)
        self.warnings = WarningList(theme)
        box.addWidget(self.warnings)
        self.second = RunnerUp(theme, what_if)
        box.addWidget(self.second)
        self.others = RowList(theme, tr("Other plans"), inset=0)
        self.preferred = RowList(theme, tr("Better, but not available here"), inset=0)
        self._refused_rows = RowList(theme, tr("Ruled out"), inset=0)
        for rows in (
            self.reasons,
            self.more_reasons,
            self.service_reasons,
            self.others,
            self.preferred,
            self._refused_rows,
        ):
            rows.fill = rows.outline = ""
        self._others_fold = Fold(theme, tr("Other plans"), self.others)
        self._preferred_fold = Fold(theme, tr("Better, but not available here"), self.preferred)
        self._refused_fold = Fold(theme, tr("Ruled out, and why"), self._refused_rows)
        box.addWidget(self._others_fold)
        box.addWidget(self._preferred_fold)
        box.addWidget(self._refused_fold)

    def show_plans(self) -> None:
        """Show what is advised now."""
        usable, refused_plans = self._what_if.usable_plans, self._what_if.plan_refusals
        best = usable[0] if usable else None
        self.sentence.setText(_decision_sentence(best))
        self.recommendation.setText(self._what_if.recommendation)
        self.recommendation.setVisible(bool(self._what_if.recommendation))
        self._show_tags(best)
        self._show_reasons(best.reasons if best else [])
        self._show_service(self._what_if.service)
        self.warnings.show_sentences(list(best.warnings) if best else [])
        self.second.show_plan(best, usable[1] if len(usable) > 1 else None)
        further = usable[2:]
        self.others.sync({_plan_key(plan): plan for plan in further}, self._plan_row, PlanRow.show_plan)
        self._others_fold.set_title(tr_plural("{count} other plan", "{count} other plans", len(further)))
        self._others_fold.setVisible(bool(further))
        preferred_plans = self._what_if.better_plans
        for rows, plans in ((self.preferred, preferred_plans), (self._refused_rows, refused_plans)):
            rows.sync(
                {_plan_key(plan): plan for plan in plans}, lambda _: MissingView(self.theme), MissingView.show_plan
            )
        self._preferred_fold.set_title(
            tr_plural(
                "{count} better, but not available here", "{count} better, but not available here", len(preferred_plans)
            )
        )
        self._preferred_fold.setVisible(bool(preferred_plans))
        self._refused_fold.set_title(
            tr_plural("{count} ruled out, and why", "{count} ruled out, and why", len(refused_plans))
        )
        self._refused_fold.setVisible(bool(refused_plans))

    def _show_reasons(self, reasons: list[Reason]) -> None:
        first = _FIRST_REASONS if len(reasons) > _FIRST_REASONS + 1 else len(reasons)
        for rows, some in ((self.reasons, reasons[:first]), (self.more_reasons, reasons[first:])):
            rows.sync({reason.text: reason for reason in some}, self._make_reason, ReasonView.show_reason)
        self.reasons.setVisible(bool(reasons))
        self._reasons_fold.setVisible(len(reasons) > first)
        self._reasons_fold.set_title(tr_plural("{count} more reason", "{count} more reasons", len(reasons) - first))

    def _show_service(self, service: ServicePlan | None) -> None:
        reasons = [] if service is None else service.reasons
        steps = [] if service is None else [Reason(text=step) for step in service.steps]
        self.service.setText("" if service is None else service.sentence)
        self.service.setVisible(service is not None)
        rows = {reason.text: reason for reason in (*reasons, *steps)}
        self.service_reasons.sync(rows, self._make_reason, ReasonView.show_reason)
        self.service_reasons.setVisible(bool(rows))

    def _show_tags(self, best: Plan | None) -> None:
        tag_texts = [plan_title(best), *plan_tags(best), *filter(None, [plan_availability(best)])] if best else []
        if tag_texts == self._shown_tags:
            return
        self._shown_tags = tag_texts
        clear_layout(self._tags)
        for place, text in enumerate(tag_texts):
            is_first = place == 0
            color, fill = ("accent-ink", "accent-soft") if is_first else ("ink-2", "sunken")
            self._tags.addWidget(Tag(self.theme, text, color=color, fill=fill))

    def _make_reason(self, reason: Reason) -> "ReasonView":
        return ReasonView(self.theme, reason)

    def _plan_row(self, _plan: Plan) -> "PlanRow":
        return PlanRow(self.theme, self._what_if)


class RunnerUp(Surface):
    """The second-best plan: what it would cost or bring."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme, fill="sunken", outline="")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(theme, self, margins=(16, 12, 12, 12), gap=12)
        line.addWidget(IconLabel(theme, "lightbulb", color="accent-ink"), 0, Qt.AlignmentFlag.AlignTop)
        pair = PairLayout(theme)
        texts = VBox(theme, gap=2)
        self.title = Paragraph(theme, weight=500)
        self.why = Paragraph(theme, color="ink-2")
        self.price = Paragraph(theme, color="ink-2")
        for label in (self.title, self.why, self.price):
            texts.addWidget(label)
        pair.addLayout(texts)
        tail = HBox(theme)
        self.look = ShowEstimateButton(theme, what_if)
        tail.addWidget(self.look, 0, Qt.AlignmentFlag.AlignTop)
        pair.addLayout(tail)
        line.addLayout(pair, 1)

    def show_plan(self, best: Plan | None, plan: Plan | None) -> None:
        """Show the plan after the best, if there is one."""
        self.setVisible(plan is not None)
        if best is None or plan is None:
            return
        title, weights = plan_title(plan), " ".join(plan_tags(plan)[:1])
        self.title.setText(
            tr("Runner-up: {plan} with {weights}", plan=title, weights=weights)
            if weights
            else tr("Runner-up: {plan}", plan=title)
        )
        self.why.setText(plan.sentence)
        self.why.setVisible(bool(plan.sentence))
        price = plan_costs(best, plan)
        self.price.setText(
            tr("Compared with the first: {differences}.", differences=", ".join(price))
            if price
            else tr("There is no notable difference.")
        )
        self.look.show_plan(plan)


class ShowEstimateButton(Button):
    """Shows the sums of a plan below, or goes back to those of the best."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme, tr("Show its estimate"), look=ButtonLook.QUIET, widest=tr("Back to the best plan"))
        self._what_if = what_if

    def show_plan(self, plan: Plan) -> None:
        """Offer what can be done with it now."""
        current, best = self._what_if.current_plan, self._what_if.usable_plans[0]
        is_shown = current is not None and key_of(current) == key_of(plan)
        goal = best if is_shown else plan
        self.set_text(tr("Back to the best plan") if is_shown else tr("Show its estimate"))
        self.setAccessibleName(f"{self.text()}: {plan_title(plan)}")
        self.set_action(partial(self._what_if.look_at, goal))


class PlanRow(ListRow):
    """A plan further down the list."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__(theme, inset=0)
        self._what_if = what_if
        self._look = ShowEstimateButton(theme, what_if)
        self.tail.addWidget(self._look)

    def show_plan(self, plan: Plan) -> None:
        """Show it against the best."""
        price = ", ".join(plan_costs(self._what_if.usable_plans[0], plan))
        strong = " · ".join([plan_title(plan), *plan_tags(plan)[:1]])
        self.show_text(strong, price or plan.sentence)
        self._look.show_plan(plan)


class MissingView(QWidget):
    """An engine that is not used: what is missing for it, and how to get that."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        box = VBox(theme, self, margins=(0, 8, 0, 8), gap=2)
        self._name = Label(theme, weight=500)
        self._why = Paragraph(theme, color="ink-2")
        self._steps = Paragraph(theme, color="ink-2")
        for label in (self._name, self._why, self._steps):
            box.addWidget(label)

    def show_plan(self, plan: Plan) -> None:
        """Show what is missing; the steps where the engine would be better."""
        self._name.setText(plan_title(plan))
        self._why.setText(" ".join(plan.missing))
        steps = plan.steps if plan.is_preferred else []
        self._steps.setText("\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)))
        self._steps.setVisible(bool(steps))


class ReasonView(QWidget):
    """A reason: its sentence, where that was read, and the value if the sentence does not say it."""

    def __init__(self, theme: Theme, reason: Reason) -> None:
        super().__init__()
        frame = VBox(theme, self, margins=(0, 7, 0, 7))
        pair = PairLayout(theme, room=260)
        frame.addLayout(pair)
        text_side, value_side = HBox(theme), HBox(theme, gap=16)
        self._text = Paragraph(theme)
        self._source = Label(theme, role="meta", color="ink-2")
        self._value = Label(theme, weight=500)
        text_side.addWidget(self._text)
        value_side.addWidget(self._value)
        value_side.addWidget(self._source)
        pair.addLayout(text_side)
        pair.addLayout(value_side)
        self.show_reason(reason)

    def show_reason(self, reason: Reason) -> None:
        """Show it as it is now."""
        self._text.setText(reason.text)
        self._source.setText(reason.source)
        self._source.setVisible(bool(reason.source))
        self._value.setText(reason_figure(reason))
        self._value.setVisible(bool(self._value.text()))


class WarningList(QWidget):
    """Sentences one should know before following a plan."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._sentences: list[str] = []
        self._box = VBox(theme, self, gap=6)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def show_sentences(self, sentences: list[str]) -> None:
        """Show these."""
        self.setVisible(bool(sentences))
        if sentences == self._sentences:
            return
        self._sentences = sentences
        clear_layout(self._box)
        for sentence in sentences:
            self._box.addWidget(Remark(self._theme, sentence))


def _decision_sentence(best: Plan | None) -> str:
    if best is None:
        return tr("No engine can do that on this machine.")
    return best.sentence or best.name or best.engine


def _plan_key(plan: Plan) -> str:
    return " ".join(key_of(plan))
