"""The files of models: remove and bring back, check, find what is here twice."""

from app.core.disk import DiskUse, EmptyTrash
from app.core.library import (
    FindDuplicates,
    LibraryJob,
    ModelUpdate,
    ReclaimDuplicates,
    Removal,
    RemoveModel,
    VerifyModel,
)
from app.core.models import ModelInfo
from app.gateway.admin.calls import Call, Endpoint, NoQuery
from app.gateway.hub import searching
from app.gateway.loading.capabilities import with_capabilities


async def plan(call: Call[RemoveModel, NoQuery]) -> Removal:
    """POST /removals/plan."""
    return await call.library.plan(call.body.model)


async def remove(call: Call[RemoveModel, NoQuery]) -> Removal:
    """POST /removals."""
    return await call.library.remove(call.body.model, for_good=call.body.for_good)


async def undo(call: Call[None, NoQuery]) -> ModelInfo:
    """POST /removals/{id}/undo."""
    return (await with_capabilities(call.services, [await call.library.undo(call.names["id"])]))[0]


async def job(call: Call[None, NoQuery]) -> LibraryJob | None:
    """GET /library/job."""
    return call.library.last


async def cancel(call: Call[None, NoQuery]) -> None:
    """DELETE /library/job."""
    await call.library.cancel()


async def verify(call: Call[VerifyModel, NoQuery]) -> LibraryJob:
    """POST /library/verify."""
    return await call.library.verify(call.body.model)


async def find_duplicates(call: Call[FindDuplicates, NoQuery]) -> LibraryJob:
    """POST /library/duplicates."""
    return await call.library.find_duplicates(reclaim=call.body.reclaim)


async def reclaim(call: Call[ReclaimDuplicates, NoQuery]) -> LibraryJob:
    """POST /library/reclaim."""
    return await call.library.reclaim(call.body.sha256)


async def separate(call: Call[None, NoQuery]) -> LibraryJob:
    """POST /library/separate."""
    return await call.library.separate()


async def disk(call: Call[None, NoQuery]) -> DiskUse:
    """GET /library/disk."""
    return await call.library.disk()


async def empty_trash(call: Call[EmptyTrash, NoQuery]) -> LibraryJob:
    """POST /library/empty-trash."""
    return await call.library.empty_trash(call.body.digests)


async def updates(call: Call[None, NoQuery]) -> list[ModelUpdate]:
    """GET /library/updates."""
    return await searching.updates_of_models(call.services)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/removals/plan",
        handler=plan,
        summary="Say what removing a model's files would take away; nothing is changed",
        body=RemoveModel,
        reply=Removal,
    ),
    Endpoint(
        method="POST",
        path="/removals",
        handler=remove,
        summary="Remove a model's files, to the trash or for good",
        body=RemoveModel,
        reply=Removal,
    ),
    Endpoint(
        method="POST",
        path="/removals/{id}/undo",
        handler=undo,
        summary="Bring back a model that went to the trash since the gateway started",
        reply=ModelInfo,
    ),
    Endpoint(
        method="GET",
        path="/library/job",
        handler=job,
        summary="Show the check or search that runs, or ran last",
        reply=LibraryJob | None,
    ),
    Endpoint(
        method="DELETE",
        path="/library/job",
        handler=cancel,
        summary="Call the check or search off",
        status=204,
    ),
    Endpoint(
        method="POST",
        path="/library/verify",
        handler=verify,
        summary="Read a model's files and compare them with the hashes that are known of them",
        body=VerifyModel,
        reply=LibraryJob,
    ),
    Endpoint(
        method="POST",
        path="/library/duplicates",
        handler=find_duplicates,
        summary="Find contents that lie here more than once, and let copies share their space",
        body=FindDuplicates,
        reply=LibraryJob,
    ),
    Endpoint(
        method="POST",
        path="/library/reclaim",
        handler=reclaim,
        summary="Let equal files that the last search found share their space",
        body=ReclaimDuplicates,
        reply=LibraryJob,
    ),
    Endpoint(
        method="POST",
        path="/library/separate",
        handler=separate,
        summary="Copy apart what was made to share its space since the gateway started",
        reply=LibraryJob,
    ),
    Endpoint(
        method="GET",
        path="/library/disk",
        handler=disk,
        summary="Show what models take of the disks: drives, folders, and each model",
        reply=DiskUse,
    ),
    Endpoint(
        method="POST",
        path="/library/empty-trash",
        handler=empty_trash,
        summary="Delete models in the trash for good: those that the drives' digests stand for, and nothing else",
        body=EmptyTrash,
        reply=LibraryJob,
    ),
    Endpoint(
        method="GET",
        path="/library/updates",
        handler=updates,
        summary="Ask the hub whether it has newer files of the models that came from it",
        reply=list[ModelUpdate],
    ),
)
