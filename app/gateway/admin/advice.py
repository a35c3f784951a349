"""What the advisor answers: plans, estimates, calibrations, loads against their prediction, and the report."""

from app.core.advice import Advice, Calibration, Estimate, EstimateRequest, LoadTruth, PlanRequest
from app.core.report import Bundle, DoctorReport
from app.gateway.admin.calls import Call, NoQuery, Routes

routes = Routes()


@routes.add("POST", "/plan")
async def plan(call: Call[PlanRequest, NoQuery]) -> Advice:
    """Say which engine, format and settings fit, best first, and why."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- the advisor is brought in once somebody asks it

    return await advice.plan(call.services, call.body)


@routes.add("POST", "/estimate")
async def estimate(call: Call[EstimateRequest, NoQuery]) -> Estimate:
    """Say what a model takes, whether it fits, and how fast it will be."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- as above

    return await advice.estimate(call.services, call.body)


@routes.add("GET", "/calibration")
async def calibrations(call: Call[None, NoQuery]) -> list[Calibration]:
    """List what was measured of this computer's speed."""
    return await call.services.measuring.calibrations()


@routes.add("DELETE", "/calibration")
async def forget(call: Call[None, NoQuery]) -> None:
    """Forget what was measured."""
    await call.services.measuring.forget()


@routes.add("POST", "/calibrate", status=202)
async def calibrate(call: Call[None, NoQuery]) -> None:
    """Measure this computer's speed; takes about a minute.

    Begin, or let the one that runs go on; events say how far it is.
    """
    call.calibrator.start()


@routes.add("DELETE", "/calibrate")
async def stop_calibrating(call: Call[None, NoQuery]) -> None:
    """Stop measuring."""
    await call.calibrator.stop()


@routes.add("GET", "/loads")
async def loads(call: Call[None, NoQuery]) -> list[LoadTruth]:
    """List what loads took against what was predicted."""
    return await call.services.chats.loads()


@routes.add("GET", "/doctor")
async def doctor(call: Call[None, NoQuery]) -> DoctorReport:
    """Write a report about this computer without names or serial numbers."""
    from app.gateway.watching.bundle import machine_report  # noqa: PLC0415 -- start-up must not pay for the readers

    return await machine_report(call.services.catalogue)


@routes.add("GET", "/bundle")
async def bundle(call: Call[None, NoQuery]) -> Bundle:
    """Gather what helps to find a mistake: report, versions, settings, logs; no prompts, keys or names."""
    from app.gateway.watching.bundle import collect  # noqa: PLC0415 -- as above

    return await collect(call.services, call.inspector)
