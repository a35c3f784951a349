"""What the advisor answers: plans, estimates, calibrations, loads against their prediction, and the report."""

from app.core.advice import Advice, Calibration, Estimate, EstimateRequest, LoadTruth, PlanRequest
from app.core.report import Bundle, DoctorReport
from app.gateway.admin.calls import Call, NoQuery


async def plan(call: Call[PlanRequest, NoQuery]) -> Advice:
    """POST /plan."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- the advisor is brought in once somebody asks it

    return await advice.plan(call.services, call.body)


async def estimate(call: Call[EstimateRequest, NoQuery]) -> Estimate:
    """POST /estimate."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- as above

    return await advice.estimate(call.services, call.body)


async def calibrations(call: Call[None, NoQuery]) -> list[Calibration]:
    """GET /calibration."""
    return await call.services.measuring.calibrations()


async def forget(call: Call[None, NoQuery]) -> None:
    """DELETE /calibration."""
    await call.services.measuring.forget()


async def calibrate(call: Call[None, NoQuery]) -> None:
    """POST /calibrate: begin, or let the one that runs go on; events say how far it is."""
    call.calibrator.start()


async def stop_calibrating(call: Call[None, NoQuery]) -> None:
    """DELETE /calibrate."""
    await call.calibrator.stop()


async def loads(call: Call[None, NoQuery]) -> list[LoadTruth]:
    """GET /loads."""
    return await call.services.chats.loads()


async def doctor(call: Call[None, NoQuery]) -> DoctorReport:
    """GET /doctor."""
    from app.gateway.watching.bundle import machine_report  # noqa: PLC0415 -- start-up must not pay for the readers

    return await machine_report(call.services)


async def bundle(call: Call[None, NoQuery]) -> Bundle:
    """GET /bundle."""
    from app.gateway.watching.bundle import collect  # noqa: PLC0415 -- as above

    return await collect(call.services, call.inspector)
