"""Benchmarks: what runs, and what came of those that ran."""

from typing import Annotated

import msgspec

from app.core.benchmarks import BenchmarkReceipt, StartBenchmark
from app.core.events import BenchmarkChanged
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


class ReceiptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which receipts."""

    model: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


@routes.add("GET", "/benchmarks")
async def benchmarks(call: AdminCall[None, ReceiptQuery]) -> list[BenchmarkReceipt]:
    """List what benchmarks came to, newest first, without their single requests."""
    receipts = await call.services.chats.list_benchmarks(model=call.query.model, limit=call.query.limit)
    return [msgspec.structs.replace(receipt, samples=[]) for receipt in receipts]


@routes.add("POST", "/benchmarks", status=202)
async def start_benchmark(call: AdminCall[StartBenchmark, NoQuery]) -> BenchmarkChanged:
    """Measure a model or an endpoint; takes a minute or more, and events say how far it is."""
    return await call.benchmarks.start(call.body)


@routes.add("GET", "/benchmarks/job")
async def benchmark_job(call: AdminCall[None, NoQuery]) -> BenchmarkChanged | None:
    """Say what runs, or ran last."""
    return call.benchmarks.job.last


@routes.add("DELETE", "/benchmarks/job")
async def stop_benchmark(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs."""
    await call.benchmarks.stop()


@routes.add("GET", "/benchmarks/{id}")
async def benchmark(call: AdminCall[None, NoQuery]) -> BenchmarkReceipt:
    """Show one receipt whole."""
    return await call.services.chats.find_benchmark(call.names["id"])


@routes.add("DELETE", "/benchmarks/{id}")
async def delete_benchmark(call: AdminCall[None, NoQuery]) -> None:
    """Forget one receipt."""
    await call.services.chats.delete_benchmark(call.names["id"])
