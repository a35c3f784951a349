"""Whether engines are confined, as a person's settings and this computer have it."""

from app.config.paths import Paths
from app.config.store import SettingsStore
from app.confinement.confiner import Confiner
from app.confinement.support import engine_confinement, read_kernel_offer, report_confinement
from app.core.confinement import ConfinementReport, EngineConfinementState
from engines.api import Descriptor


def make_confiner(paths: Paths, settings: SettingsStore) -> Confiner:
    """Return what says how each engine is held. Settings count from the next load on."""
    return Confiner(
        paths.engine_homes,
        lambda engine: settings.get_flag("engines.confine") and engine not in settings.get_list("engines.unconfined"),
    )


def confinement_report(settings: SettingsStore) -> ConfinementReport:
    """Return whether engines are confined on this computer. The first time it takes a moment."""
    return report_confinement(
        read_kernel_offer(),
        is_wanted=settings.get_flag("engines.confine"),
        free_engines=settings.get_list("engines.unconfined"),
    )


def confinement_of(about: Descriptor, settings: SettingsStore) -> EngineConfinementState:
    """Return whether one engine is. The first time it takes a moment."""
    return engine_confinement(
        about,
        read_kernel_offer(),
        is_wanted=settings.get_flag("engines.confine"),
        free_engines=settings.get_list("engines.unconfined"),
    )
