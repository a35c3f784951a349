"""What a fleet file says: TOML, in which each mistake is a sentence."""

import tomllib
from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.fleets import LocalReplica
from app.gateway.library.attached_endpoints import check_url
from engines.api import EngineFamily
from engines.registry import ADAPTERS

MOST_REPLICAS = 256
"""More replicas than any test of these routers was published with."""
MOST_LOCAL = 64
"""More engines than cards and processors of one computer serve apart."""
VERSION = "/v1"
_MOST_TEXT = 64 * 1024
_FIELDS = (
    "It has `model` and `replicas`, and may have `serves`, `router`, `policy`, `engine`, `slots`, `context` and "
    "`threads`."
)


class FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fleet file: `serves` is what replicas elsewhere call the model, and whose weights those here have.

    `replicas` is a number of engines on this computer, or a list of addresses and of tables for such engines; what
    stands beside it counts for engines whose table does not say.
    """

    model: str
    """Its name here."""
    replicas: int | tuple[str | LocalReplica, ...]
    serves: str = ""
    router: str = "smg"
    policy: str = ""
    """How the router chooses a replica; empty leaves it to the router's adapter."""
    engine: str | None = None
    slots: int | None = None
    context: int | None = None
    threads: int | None = None

    @property
    def entries(self) -> tuple[str | LocalReplica, ...]:
        """Every replica, with what counts for all engines here."""
        usual = {"engine": self.engine, "slots": self.slots, "context": self.context, "threads": self.threads}
        entries = (LocalReplica(),) * self.replicas if isinstance(self.replicas, int) else self.replicas
        return tuple(entry if isinstance(entry, str) else _with_usual(entry, usual) for entry in entries)


def _with_usual(entry: LocalReplica, usual: dict[str, str | int | None]) -> LocalReplica:
    own = {name: value for name, value in msgspec.structs.asdict(entry).items() if value is not None}
    return msgspec.convert({**usual, **own}, LocalReplica)


def read_fleet_file(text: str) -> FleetFile:
    """Return what a fleet file says. Raises BadRequest with where it is wrong."""
    if len(text) > _MOST_TEXT:
        raise BadRequest("The fleet file is too long.", code="invalid_value")
    try:
        file = msgspec.convert(tomllib.loads(text), FleetFile)
        _check_count(file.replicas if isinstance(file.replicas, int) else len(file.replicas))
        entries = file.entries
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequest(f"The fleet file is not TOML: {error}", code="invalid_value") from None
    except msgspec.ValidationError as error:
        raise BadRequest(f"The fleet file is not valid: {error}.", hint=_FIELDS, code="invalid_value") from None
    local = sum(isinstance(entry, LocalReplica) for entry in entries)
    if local > MOST_LOCAL:
        raise BadRequest(f"At most {MOST_LOCAL} replicas run on this computer, not {local}.", code="invalid_value")
    return file


def _check_count(count: int) -> None:
    if not 0 < count <= MOST_REPLICAS:
        raise BadRequest(f"A fleet has 1 to {MOST_REPLICAS} replicas, not {count}.", code="invalid_value")


def check_router(router: str) -> None:
    """Return for a router of the engine list. Raises BadRequest for anything else."""
    routers = [engine for engine, adapter in ADAPTERS.items() if adapter.descriptor.family is EngineFamily.ROUTER]
    if router not in routers:
        hint = f"There is {' or '.join(routers)}."
        raise BadRequest(f"There is no router {quote_value(router)}.", hint=hint, code="invalid_value")


def check_addresses(replicas: Sequence[str], *, own: str) -> tuple[str, ...]:
    """Return the addresses without `/v1`, as routers want them. Raises BadRequest."""
    checked_urls = [check_url(url, own=own).removesuffix(VERSION) for url in replicas]
    for url in checked_urls:
        if checked_urls.count(url) > 1:
            raise BadRequest(f"The replica {url} is listed more than once.", code="invalid_value")
    return tuple(checked_urls)
