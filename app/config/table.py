"""Every setting there is, as data. Validation, the command line, the settings page and the manual derive from this.

A default is what a person who never opens the settings should have. Names are `section.name` and never change meaning;
a renamed setting keeps its old name in `formerly`.
"""

from app.config.rows.endpoint import ENDPOINT_SETTINGS
from app.config.rows.engines import ENGINES_SETTINGS
from app.config.rows.models import MODELS_SETTINGS
from app.config.rows.network import NETWORK_SETTINGS
from app.config.rows.requests import REQUESTS_SETTINGS
from app.config.rows.window import WINDOW_SETTINGS
from app.config.setting import Setting

SETTINGS: tuple[Setting, ...] = (
    *ENDPOINT_SETTINGS,
    *MODELS_SETTINGS,
    *ENGINES_SETTINGS,
    *NETWORK_SETTINGS,
    *REQUESTS_SETTINGS,
    *WINDOW_SETTINGS,
)

BY_NAME: dict[str, Setting] = {alias: row for row in SETTINGS for alias in (row.name, *row.formerly)}
