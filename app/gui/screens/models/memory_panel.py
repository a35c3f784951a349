"""The memory that loaded models share: a bar for each memory, whose pieces are the models, and who waits for whom."""

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.memory import MemoryPool, MemoryState
from app.gui.screens.models import memory_model
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.text import ElidedLabel, Label, Paragraph


class MemoryPanel(Surface):
    """Shows a `MemoryState`; hidden while no model holds anything."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=12)
        self._pools = VBox(theme, gap=12)
        self._pool_views: dict[str, _MemoryPoolView] = {}
        box.addLayout(self._pools)
        self._waits = Paragraph(theme, role="meta", color="warn")
        box.addWidget(self._waits)
        self.show_state(MemoryState(pools=[]))

    def show_state(self, state: MemoryState) -> None:
        """Show what is so now."""
        pools = {pool.id: pool for pool in memory_model.pools_in_use(state)}
        if list(pools) != list(self._pool_views):
            clear_layout(self._pools)
            self._pool_views = {key: _MemoryPoolView(self.theme, pool.name) for key, pool in pools.items()}
            for view in self._pool_views.values():
                self._pools.addWidget(view)
        for key, pool in pools.items():
            self._pool_views[key].show_pool(pool)
        waiting_text = memory_model.waits_text(state.waiting)
        self._waits.setText(waiting_text)
        self._waits.setVisible(bool(waiting_text))
        self.setVisible(bool(pools or waiting_text))


class _MemoryPoolView(QWidget):
    """One memory."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=6)
        head = HBox(theme, gap=8)
        self._figure = Label(theme, role="meta", color="ink-2")
        head.addWidget(ElidedLabel(theme, name, weight=500), 1)
        head.addWidget(self._figure)
        box.addLayout(head)
        self._bar, self._legend = PartsBar(theme, f"{name}, used by models"), Legend(theme)
        box.addWidget(self._bar)
        box.addWidget(self._legend)

    def show_pool(self, pool: MemoryPool) -> None:
        """Show what is so now."""
        entries = memory_model.legend_entries(pool)
        self._figure.setText(memory_model.pool_headline(pool))
        self._bar.set_parts(
            memory_model.bar_parts(pool), memory_model.bar_total(pool), "; ".join(words for _, words in entries)
        )
        self._legend.set_entries(entries)
