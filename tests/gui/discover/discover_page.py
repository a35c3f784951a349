"""What several tests of Discover do: search the hub, and read the cards that come."""

from PySide6.QtWidgets import QApplication

from app.core.errors import ErrorBody
from app.gui.screens.models.hub_card import HubCardView
from app.gui.screens.models.view import ModelsScreen
from tests.demo.api import DemoApi

REFUSED = ErrorBody(code="hub_gated", sentence="It is gated.", hint="Open the model page.")


def search_hub(screen: ModelsScreen, api: DemoApi, text: str = "qwen3") -> list[HubCardView]:
    screen.show_discover()
    screen.discover.field.setText(text)
    screen.hub_search.search_now()
    api.flush()
    QApplication.sendPostedEvents()
    return list_cards(screen)


def list_cards(screen: ModelsScreen) -> list[HubCardView]:
    return [view for view in screen.discover._list.rows.values() if isinstance(view, HubCardView)]
