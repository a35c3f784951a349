"""What the advisor answers: plans, estimates, calibrations, loads against their prediction, and the report."""

import asyncio

from app import __version__
from app.core.advice import Advice, Calibration, Estimate, EstimateRequest, LoadTruth, PlanRequest
from app.core.report import DoctorReport, EngineVersion
from app.gateway.admin.calls import Call, NoQuery
from app.gateway.launch import devices_of
from app.gateway.machine import LLAMA_CPP


async def plan(call: Call[PlanRequest, NoQuery]) -> Advice:
    """POST /plan."""
    from app.gateway import advice  # noqa: PLC0415 -- the advisor is brought in once somebody asks it

    return await advice.plan(call.services, call.body)


async def estimate(call: Call[EstimateRequest, NoQuery]) -> Estimate:
    """POST /estimate."""
    from app.gateway import advice  # noqa: PLC0415 -- as above

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
    from app.hardware.doctor import examine  # noqa: PLC0415 -- start-up must not pay for the readers

    services = call.services
    engines, devices = await asyncio.gather(
        asyncio.to_thread(services.catalogue.list), asyncio.to_thread(devices_of, services.catalogue)
    )
    installed = [
        EngineVersion(id=engine.id, version=engine.version, backend=engine.backend)
        for engine in engines
        if engine.installed
    ]
    application = f"Roundhouse {__version__}"
    return await examine(application=application, engines=installed, devices={LLAMA_CPP: devices})
