"""EXL3 of a model's original weights, made on this computer's card."""

from app.core.events import QuantizeChanged
from app.core.quantize import QuantizeModel, QuantizePlan
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("POST", "/quantizations/plan")
async def plan_quantization(call: AdminCall[QuantizeModel, NoQuery]) -> QuantizePlan:
    """Say what making EXL3 of a model takes, and what stands in its way; nothing is done."""
    return await call.quantizer.plan_run(call.body)


@routes.add("POST", "/quantizations", status=202)
async def start_quantization(call: AdminCall[QuantizeModel, NoQuery]) -> QuantizeChanged:
    """Convert a model's original weights to EXL3, or go on where an earlier run ended; events say how far it is."""
    return await call.quantizer.start_run(call.body)


@routes.add("GET", "/quantizations/job")
async def quantization_job(call: AdminCall[None, NoQuery]) -> QuantizeChanged | None:
    """Say what runs, or ran last, and what came of it."""
    return call.quantizer.job.last


@routes.add("DELETE", "/quantizations/job")
async def stop_quantization(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs; the next run of the same model and bits goes on from there."""
    await call.quantizer.stop_run()
