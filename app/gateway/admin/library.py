"""The files of models: remove and bring back, check, find what is here twice."""

from app.core.library import (
    DiskUse,
    EmptyTrash,
    FindDuplicates,
    LibraryJob,
    ModelUpdate,
    ReclaimDuplicates,
    Removal,
    RemoveModel,
    VerifyModel,
)
from app.core.models import ModelInfo
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.hub import model_search
from app.gateway.loading.capabilities import with_capabilities

routes = RouteTable()


@routes.add("POST", "/removals/plan")
async def plan(call: AdminCall[RemoveModel, NoQuery]) -> Removal:
    """Say what removing a model's files would take away; nothing is changed."""
    return await call.library.plan_removal(call.body.model)


@routes.add("POST", "/removals")
async def remove(call: AdminCall[RemoveModel, NoQuery]) -> Removal:
    """Remove a model's files, to the trash or for good."""
    return await call.library.remove(call.body.model, for_good=call.body.for_good)


@routes.add("POST", "/removals/{id}/undo")
async def undo(call: AdminCall[None, NoQuery]) -> ModelInfo:
    """Bring back a model that went to the trash since the gateway started."""
    return (await with_capabilities(call.services, [await call.library.undo(call.names["id"])]))[0]


@routes.add("GET", "/library/job")
async def job(call: AdminCall[None, NoQuery]) -> LibraryJob | None:
    """Show the check or search that runs, or ran last."""
    return call.library.job.last


@routes.add("DELETE", "/library/job")
async def cancel(call: AdminCall[None, NoQuery]) -> None:
    """Call the check or search off."""
    await call.library.job.cancel()


@routes.add("POST", "/library/verify")
async def verify(call: AdminCall[VerifyModel, NoQuery]) -> LibraryJob:
    """Read a model's files and compare them with the hashes that are known of them."""
    return await call.library.verify(call.body.model)


@routes.add("POST", "/library/duplicates")
async def find_duplicates(call: AdminCall[FindDuplicates, NoQuery]) -> LibraryJob:
    """Find contents that lie here more than once, and let copies share their space."""
    return await call.library.find_duplicates(reclaim=call.body.reclaim)


@routes.add("POST", "/library/reclaim")
async def reclaim(call: AdminCall[ReclaimDuplicates, NoQuery]) -> LibraryJob:
    """Let equal files that the last search found share their space."""
    return await call.library.reclaim(call.body.sha256)


@routes.add("POST", "/library/separate")
async def separate(call: AdminCall[None, NoQuery]) -> LibraryJob:
    """Copy apart what was made to share its space since the gateway started."""
    return await call.library.separate()


@routes.add("GET", "/library/disk")
async def disk(call: AdminCall[None, NoQuery]) -> DiskUse:
    """Show what models take of the disks: drives, folders, and each model."""
    return await call.library.read_disk_use()


@routes.add("POST", "/library/empty-trash")
async def empty_trash(call: AdminCall[EmptyTrash, NoQuery]) -> LibraryJob:
    """Delete models in the trash for good: those that the drives' digests stand for, and nothing else."""
    return await call.library.empty_trash(call.body.digests)


@routes.add("GET", "/library/updates")
async def updates(call: AdminCall[None, NoQuery]) -> list[ModelUpdate]:
    """Ask the hub whether it has newer files of the models that came from it."""
    return await model_search.updates_of_models(call.services.library, call.services.hub)
