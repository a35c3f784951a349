"""How long something will take that tells how far it is."""

_SURE_AFTER_S = 0.7
_SURE_FRACTION = 0.04


class TimeLeft:
    """Time left, from how fast the present stage went so far."""

    def __init__(self) -> None:
        self._stage = ""
        self._began = (0.0, 0.0)

    def estimate_left_s(self, stage: str, fraction: float | None, now: float) -> float | None:
        """Return the seconds left of `stage`; None while nobody can say."""
        if fraction is None:
            return None
        if stage != self._stage or fraction < self._began[1]:
            self._stage, self._began = stage, (now, fraction)
        passed, done = now - self._began[0], fraction - self._began[1]
        if passed < _SURE_AFTER_S or done < _SURE_FRACTION:
            return None
        return passed * (1.0 - fraction) / done
