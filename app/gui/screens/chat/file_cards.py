"""The files of the next question as cards above what is typed: what each is and costs, and a button that removes it."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.attachments import Attachment, AttachmentKind
from app.core.translation import tr
from app.gui.screens.chat.draft_files import DraftFile
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Scroller, Surface, VBox, clear_layout
from app.gui.widgets.text import ElidedLabel, Paragraph

CARD_WIDTH = 232
_SIDE = 36
_MOST_HEIGHT = 132
"""Two rows and the beginning of a third; more scroll."""

_LEAST_HEIGHT = 52
_MOST_SENTENCES = 3

FindThumbnail = Callable[[Attachment], QPixmap | None]


_ICONS = {AttachmentKind.PICTURE: "image", AttachmentKind.SOUND: "audio-lines"}


def kind_icon(attachment: Attachment | None) -> str:
    """Return the icon of a file."""
    return _ICONS.get(attachment.kind, "file-text") if attachment is not None else "file-text"


def draw_thumbnail(painter: QPainter, pixmap: QPixmap, area: QRectF, radius: float) -> None:
    """Fill `area` with the middle of a picture, its corners rounded."""
    side = min(pixmap.width() / area.width(), pixmap.height() / area.height())
    size = QSize(max(1, round(area.width() * side)), max(1, round(area.height() * side)))
    source = QRect(QPoint((pixmap.width() - size.width()) // 2, (pixmap.height() - size.height()) // 2), size)
    path = QPainterPath()
    path.addRoundedRect(area, radius, radius)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.setClipPath(path)
    painter.drawPixmap(area, pixmap, QRectF(source))
    painter.restore()


class _Picture(QWidget):
    """A small picture of a file, or the icon of its kind."""

    def __init__(self, theme: Theme, file: DraftFile, find_thumbnail: FindThumbnail) -> None:
        super().__init__()
        self._theme, self._file, self._find = theme, file, find_thumbnail
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a square."""
        return QSize(self._theme.px(_SIDE), self._theme.px(_SIDE))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw it."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area, radius = QRectF(self.rect()), self._theme.px(Radius.CONTROL)
        attachment = self._file.attachment
        pixmap = self._find(attachment) if attachment is not None else None
        if pixmap is not None:
            draw_thumbnail(painter, pixmap, area, radius)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("sunken"))
        painter.drawRoundedRect(area, radius, radius)
        name, color = kind_icon(attachment), "ink-2"
        if self._file.error is not None:
            name, color = "triangle-alert", "bad"
        icon = self._theme.pixmap(name, color, ratio=self.devicePixelRatioF())
        side = icon.width() / icon.devicePixelRatio()
        painter.drawPixmap(QPoint(round(area.center().x() - side / 2), round(area.center().y() - side / 2)), icon)


class FileCard(Surface):
    """One file: picture or icon, name, what it costs, and the button that removes it."""

    def __init__(
        self, theme: Theme, file: DraftFile, find_thumbnail: FindThumbnail, remove: Callable[[DraftFile], object]
    ) -> None:
        super().__init__(theme, fill="ground", radius=Radius.CARD)
        self.file = file
        line = HBox(theme, self, margins=(6, 6, 4, 6), gap=8)
        self.picture = _Picture(theme, file, find_thumbnail)
        line.addWidget(self.picture)
        words = VBox(theme, gap=0)
        is_failed = file.error is not None
        words.addWidget(ElidedLabel(theme, file.name, weight=500, mode=Qt.TextElideMode.ElideMiddle))
        # Of what was read the ends count, its size and its cost; of a failure the beginning.
        mode = Qt.TextElideMode.ElideRight if is_failed else Qt.TextElideMode.ElideMiddle
        words.addWidget(ElidedLabel(theme, file.facts, role="meta", color="bad" if is_failed else "ink-2", mode=mode))
        line.addLayout(words, 1)
        self.remove_button = IconButton(
            theme, "x", tr("Remove {name}", name=file.name), action=lambda: remove(file), size=24
        )
        line.addWidget(self.remove_button)
        self.setAccessibleName(f"{file.name}, {file.facts}")
        self.setToolTip(f"{file.name}\n{file.facts}")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the width all cards have."""
        return QSize(self.theme.px(CARD_WIDTH), super().sizeHint().height())


class FileCards(QWidget):
    """All of them; nothing where there are none."""

    def __init__(self, theme: Theme, find_thumbnail: FindThumbnail, remove: Callable[[DraftFile], object]) -> None:
        super().__init__()
        self._theme, self._find, self._remove = theme, find_thumbnail, remove
        self._shown_facts: list[tuple[int, str]] = []
        self.cards: list[FileCard] = []
        """Those shown, in order."""
        self._inner = QWidget()
        self._flow = FlowLayout(theme, self._inner, gap=8)
        self._scroller = Scroller(self._inner, tr("Attached files"))
        self._limit = theme.px(_MOST_HEIGHT)
        self.problems = Paragraph(theme, role="meta", color="bad")
        """Why some cannot be read, in whole sentences: a card has room for a few words."""
        column = VBox(theme, self, margins=(0, 0, 0, 6), gap=4)
        column.addWidget(self._scroller)
        column.addWidget(self.problems)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setAccessibleName(tr("Attached files"))
        theme.changed.connect(self._fit_height)
        self.hide()

    @property
    def has_keyboard(self) -> bool:
        """Whether one of the buttons in it has the keyboard."""
        return any(card.remove_button.hasFocus() for card in self.cards)

    def show_files(self, files: Sequence[DraftFile]) -> None:
        """Show these; the keyboard stays where it was, or goes to the card after one that is gone."""
        facts = [(file.number, file.facts) for file in files]
        if facts == self._shown_facts:
            return
        place = next((at for at, card in enumerate(self.cards) if card.remove_button.hasFocus()), None)
        self._shown_facts = facts
        clear_layout(self._flow)
        self.cards = [FileCard(self._theme, file, self._find, self._remove) for file in files]
        for card in self.cards:
            self._flow.addWidget(card)
            card.show()  # a hidden one takes no room in the flow
        sentences = [f"{file.name}: {file.facts}" for file in files if file.error is not None]
        self.problems.setText("\n".join(sentences[:_MOST_SENTENCES]))
        self.problems.setVisible(bool(sentences))
        self.setVisible(bool(files))
        self._fit_height()
        if place is not None and self.cards:
            self.cards[min(place, len(self.cards) - 1)].remove_button.setFocus()

    def limit_height(self, height: int) -> None:
        """Let the cards take up to this height; more scroll."""
        self._limit = min(self._theme.px(_MOST_HEIGHT), max(self._theme.px(_LEAST_HEIGHT), height))
        self._fit_height()

    def repaint_pictures(self) -> None:
        """Draw pictures that have come."""
        for card in self.cards:
            card.picture.update()

    def resizeEvent(self, event: object) -> None:  # noqa: N802 -- Qt's name
        """Take as much height as the rows need."""
        del event
        self._fit_height()

    def _fit_height(self) -> None:
        width = max(1, self.width())
        self._scroller.setFixedHeight(min(self._limit, self._flow.heightForWidth(width)))
