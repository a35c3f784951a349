"""Files for clusters: written as texts, for a person to put where they belong. Nothing is run."""

import asyncio

from app.core.deployments import Deployment, DeploymentRequest
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("POST", "/deployments/render")
async def render(call: AdminCall[DeploymentRequest, NoQuery]) -> Deployment:
    """Write Kubernetes manifests or a compose file for replicas of one model; nothing is run or kept."""
    from app.engine_store.recipe import read_recipes  # noqa: PLC0415 -- recipes and engines' tables are read when asked
    from app.gateway.deploying.rendering import (  # noqa: PLC0415 -- as above
        render_deployment,
        stable_versions,
    )

    return render_deployment(call.body, stable_versions(await asyncio.to_thread(read_recipes)))
