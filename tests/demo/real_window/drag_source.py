"""Another program, from which files are dragged: `python -m tests.demo.real_window.drag_source FILE…`."""

import sys

from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel

TITLE = "Files to drag"


class DragSource(QLabel):
    """A sheet that gives the files to whatever it is dragged to."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("\n".join(paths))
        self._paths = paths
        self.setWindowTitle(TITLE)
        self.setGeometry(1340, 600, 240, 120)  # beside the window that is tried

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Begin to drag."""
        del event
        drag, content = QDrag(self), QMimeData()
        content.setUrls([QUrl.fromLocalFile(path) for path in self._paths])
        drag.setMimeData(content)
        drag.exec()


def main() -> int:
    """Show the sheet until the program is ended."""
    application = QApplication(sys.argv)
    source = DragSource(sys.argv[1:])
    source.show()
    return application.exec()


if __name__ == "__main__":
    sys.exit(main())
