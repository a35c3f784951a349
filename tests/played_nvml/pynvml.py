"""What the binding of that name would say of an H100 that uses 7 J between questions, and of a GTX 1080 at 120 W."""

# ruff: noqa: N802 -- the names are those of the binding
import itertools

UUIDS = ("GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000")
_MILLIJOULES = itertools.count(1_000_000, 7000)


class NVMLError(Exception):
    """What the driver refuses."""


def nvmlInit() -> None:
    """Do nothing."""


def nvmlDeviceGetCount() -> int:
    """Return how many cards there are, with one that fell off the bus."""
    return len(UUIDS) + 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """Return a card's handle."""
    if index >= len(UUIDS):
        raise NVMLError("GPU is lost")
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    """Return a card's UUID."""
    return UUIDS[handle]


def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> int:
    """Return millijoules; the older card does not count."""
    if handle:
        raise NVMLError("Not Supported")
    return next(_MILLIJOULES)


def nvmlDeviceGetPowerUsage(_handle: int) -> int:
    """Return milliwatts."""
    return 120_000
