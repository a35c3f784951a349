"""How many people are served: by one engine with slots, by copies inside one engine, or by replicas behind a router.

Pure. What one copy of the model answers at once is the plan's, which memory and the engine's own limit decide; the rest
is division, and every number of it is told.
"""

from collections.abc import Iterator

import msgspec

from app.advisor.choosing.intents import Workload
from app.core import words
from app.core.advice import Intent, Plan, ServicePlan, ServiceWay
from app.core.engines import Reason

GUIDE = "decision guide"
_ESTIMATE = "estimate"
_LEAST_FLEET = 2
"""With one replica nothing goes on while it is changed or after it died."""


class _Division(msgspec.Struct, frozen=True, kw_only=True):
    """The arithmetic: `slots` of one copy, `here` copies on this machine, `copies` that the people take."""

    users: int
    slots: int
    here: int
    copies: int
    balances: bool

    @property
    def machines(self) -> int:
        """How many machines like this one hold so many copies."""
        return -(-self.copies // self.here)


def plan_service(work: Workload, plan: Plan, *, balances: bool) -> ServicePlan | None:
    """Return how a plan's engine serves everybody; None where nobody is served, or the plan cannot be had.

    `balances`: the engine shares requests out over copies of the model by itself.
    """
    if not work.needs.serves or not plan.engine or not plan.obtainable:
        return None
    slots, here = max(plan.parallelism.slots, 1), max(plan.parallelism.replicas, 1)
    copies = -(-work.users // slots)
    if work.intent is Intent.FLEET:
        copies = max(copies, _LEAST_FLEET)
    sums = _Division(users=work.users, slots=slots, here=here, copies=copies, balances=balances)
    way = _choose_way(work, sums)
    return ServicePlan(
        way=way,
        copies=1 if way is ServiceWay.ONE_ENGINE else max(copies, here) if way is ServiceWay.DATA_PARALLEL else copies,
        slots=slots,
        machines=1 if way is not ServiceWay.ROUTER else sums.machines,
        sentence=_describe_way(way, plan, sums),
        reasons=list(_list_reasons(work, plan, sums, way)),
        steps=list(_list_steps(way, plan, sums)),
    )


def _choose_way(work: Workload, sums: _Division) -> ServiceWay:
    if work.intent is Intent.FLEET or sums.copies > sums.here:
        return ServiceWay.ROUTER
    if sums.copies == 1:
        return ServiceWay.ONE_ENGINE
    return ServiceWay.DATA_PARALLEL if sums.balances else ServiceWay.ROUTER


def _describe_way(way: ServiceWay, plan: Plan, sums: _Division) -> str:
    if way is ServiceWay.ONE_ENGINE:
        return f"One engine with {_count(sums.slots, 'slot')} serves {sums.users} at once."
    if way is ServiceWay.DATA_PARALLEL:
        return f"{plan.name} with {sums.here} copies of the model, one address, serves {sums.users} at once."
    where = "this machine" if sums.machines == 1 else f"{sums.machines} machines like this one"
    return f"{sums.copies} replicas behind a router, on {where}, serve {sums.users} at once."


def _list_reasons(work: Workload, plan: Plan, sums: _Division, way: ServiceWay) -> Iterator[Reason]:
    yield Reason(
        text=f"One copy of the model answers {_count(sums.slots, 'conversation')} at once here, "
        f"and {sums.users} divided by that, rounded up, is {-(-sums.users // sums.slots)}.",
        value=f"ceil({sums.users} / {sums.slots}) = {-(-sums.users // sums.slots)}",
        source=_ESTIMATE,
    )
    yield from _reasons_of_machine(sums)
    yield from _reasons_of_speed(plan, sums)
    yield _REASONS[way]
    if work.intent is Intent.FLEET and way is ServiceWay.ROUTER:
        yield Reason(
            text="A fleet has two replicas at least, so that one can be changed, or die, while the other answers.",
            value=str(_LEAST_FLEET),
            source=GUIDE,
        )
    if way is ServiceWay.ROUTER and sums.balances and sums.here > 1 and sums.copies > sums.here:
        yield Reason(
            text=f"{plan.name} shares requests out over the {sums.here} copies of one machine by itself, "
            "not over several machines without Ray.",
            source=GUIDE,
        )


def _reasons_of_machine(sums: _Division) -> Iterator[Reason]:
    if sums.copies > sums.here:
        yield Reason(
            text=f"This machine holds {_count(sums.here, 'copy', 'copies')}: a further one on the same memory would "
            "read its weights over the same bandwidth and make nobody faster.",
            value=f"ceil({sums.copies} / {sums.here}) = {sums.machines}",
            source=GUIDE,
        )


def _reasons_of_speed(plan: Plan, sums: _Division) -> Iterator[Reason]:
    rate = plan.estimate.decode if plan.estimate is not None else None
    if rate is not None:
        at_once = min(sums.slots, -(-sums.users // max(sums.copies, 1)))
        least = words.format_rate(rate.tokens_per_second / at_once)
        most = words.format_rate(rate.tokens_per_second)
        yield Reason(
            text=f"With {at_once} at once each gets between {least} (in turns) and {most} (as if alone).",
            value=f"{rate.tokens_per_second:.3g} / {at_once}",
            source=_ESTIMATE,
        )


_REASONS = {
    ServiceWay.ONE_ENGINE: Reason(
        text="One engine batches requests by itself, and needs neither a router nor further copies of the weights.",
        source=GUIDE,
    ),
    ServiceWay.DATA_PARALLEL: Reason(
        text="vLLM and SGLang share requests out over their copies themselves; a router before one machine adds a "
        "process and finds no more in the caches.",
        source=GUIDE,
    ),
    ServiceWay.ROUTER: Reason(
        text="A router made for language models sends a conversation to the replica that has its beginning in the "
        "cache, and takes out one that fails.",
        source=GUIDE,
    ),
}


def _list_steps(way: ServiceWay, plan: Plan, sums: _Division) -> Iterator[str]:
    if way is not ServiceWay.ROUTER:
        return
    yield "roundhouse engines install smg"
    if sums.machines == 1:
        yield (
            f"roundhouse fleet start fleet.toml, with `replicas = {sums.copies}`, `slots = {sums.slots}` and "
            f'`engine = "{plan.engine}"`'
        )
    else:
        yield f"Serve the model on {sums.machines} machines, and start a fleet with their addresses as `replicas`"


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
