"""What the advisor answers: plans, estimates, calibrations, loads against their prediction, and the report."""

import asyncio

from app.core.advice import (
    Calibration,
    DraftTrial,
    Estimate,
    EstimateAccuracy,
    EstimateRequest,
    PlanRequest,
    TryDrafts,
)
from app.core.hub import MachineAdvice
from app.core.machine import DiagnosticBundle, DoctorReport
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.hub import catalogue_listing

routes = RouteTable()


@routes.add("POST", "/plan")
async def plan(call: AdminCall[PlanRequest, NoQuery]) -> MachineAdvice:
    """Say which engine, format and settings fit, best first, and why; without a model, also which model to run."""
    return await catalogue_listing.plan_machine(call.services, call.body)


@routes.add("POST", "/estimate")
async def estimate(call: AdminCall[EstimateRequest, NoQuery]) -> Estimate:
    """Say what a model takes, whether it fits, and how fast it will be."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- the advisor is brought in once somebody asks it

    return await advice.estimate_model(call.services, call.body)


@routes.add("GET", "/calibration")
async def calibrations(call: AdminCall[None, NoQuery]) -> list[Calibration]:
    """List what was measured of this computer's speed."""
    return await call.services.speed_measurements.calibrations()


@routes.add("DELETE", "/calibration")
async def forget(call: AdminCall[None, NoQuery]) -> None:
    """Forget what was measured."""
    await call.services.speed_measurements.forget_all()


@routes.add("POST", "/calibrate", status=202)
async def calibrate(call: AdminCall[None, NoQuery]) -> None:
    """Measure this computer's speed; takes about a minute.

    Begin, or let the one that runs go on; events say how far it is.
    """
    call.calibrator.start()


@routes.add("DELETE", "/calibrate")
async def stop_calibrating(call: AdminCall[None, NoQuery]) -> None:
    """Stop measuring."""
    await call.calibrator.stop()


@routes.add("GET", "/draft-trials")
async def draft_trials(call: AdminCall[None, NoQuery]) -> list[DraftTrial]:
    """List what came of trying drafts on this computer."""
    return await asyncio.to_thread(call.services.drafts.list_trials)


@routes.add("POST", "/draft-trials", status=202)
async def try_drafts(call: AdminCall[TryDrafts, NoQuery]) -> None:
    """Try whether drafts make a model faster here; takes some minutes, and events say how far it is.

    They are used from the next load on where they gain a tenth, unless something else is set for the model.
    """
    await call.drafts.start(call.body.model)


@routes.add("DELETE", "/draft-trials")
async def stop_trying_drafts(call: AdminCall[None, NoQuery]) -> None:
    """Stop trying drafts."""
    await call.drafts.stop()


@routes.add("GET", "/loads")
async def loads(call: AdminCall[None, NoQuery]) -> list[EstimateAccuracy]:
    """List what loads took against what was predicted."""
    return await call.services.chats.list_loads()


@routes.add("GET", "/doctor")
async def doctor(call: AdminCall[None, NoQuery]) -> DoctorReport:
    """Write a report about this computer without names or serial numbers."""
    from app.gateway.watching.bundle import machine_report  # noqa: PLC0415 -- start-up must not pay for the readers

    return await machine_report(call.services.catalogue, call.services.settings)


@routes.add("GET", "/bundle")
async def bundle(call: AdminCall[None, NoQuery]) -> DiagnosticBundle:
    """Gather what helps to find a mistake: report, versions, settings, logs; no prompts, keys or names."""
    from app.gateway.watching.bundle import collect_bundle  # noqa: PLC0415 -- as above

    return await collect_bundle(call.services, call.inspector)
