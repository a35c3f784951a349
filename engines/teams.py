"""What to run where when a model outgrows one computer: vLLM over Ray, or Dynamo with discovery, router and workers.

Nothing here is run: a plan of steps is made, one per process and computer, for a person (or their tools) to run and for
Roundhouse to attach to. It never invents a cluster of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelSource, ProcessSpec
from engines.dynamo import launch as dynamo
from engines.flags import build_arguments
from engines.server_adapter import QUIET
from engines.vllm import launch as vllm

RAY_PORT = 6379
ETCD_PORT = 2379
_TRUSTING = "{what} trusts everyone who can reach its ports: let only these computers reach them."


_OWN_NAME = (
    "Where a computer's own name leads to itself (127.0.1.1 on Debian), set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
    "to its network device before you start Ray there."
)
_KEY = "Put an access key into VLLM_API_KEY before you start the server, and attach the endpoint with it."


class TeamStep(msgspec.Struct, frozen=True, kw_only=True):
    """One process on one computer, to be started in the order of the plan."""

    machine: str
    process: ProcessSpec


class TeamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All steps, the address that answers in the end, and what to know before."""

    steps: tuple[TeamStep, ...]
    base_url: str
    notes: tuple[str, ...] = ()


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """The computers, the first of which answers. All need the same engine at the same place, and the model."""

    nodes: tuple[str, ...]
    model: ModelSource
    options: LaunchOptions
    net: ListenOptions
    installation: EngineInstallation

    @property
    def head(self) -> str:
        """The computer that answers."""
        return self.nodes[0]

    @property
    def python(self) -> str:
        """What runs the engine's modules."""
        return str(self.installation.python or "python")


def team_plan(engine: str, team: Team) -> TeamPlan:
    """Return what to run where. Raises ValueError for engines that do not team up, and for fewer than two computers."""
    planner = _PLANNERS.get(engine)
    if planner is None:
        raise ValueError(f"Only {' and '.join(sorted(_PLANNERS))} run over several computers here.")
    if len(team.nodes) < 2 or len(set(team.nodes)) != len(team.nodes):  # noqa: PLR2004 -- a team
        raise ValueError("A team needs two or more computers, each named once.")
    return planner(team)


def _plan_ray(team: Team) -> TeamPlan:
    """Cut one model over all: pipeline stages between computers, tensors within one, as vLLM advises."""
    options = msgspec.structs.replace(team.options, pipeline_parallel=len(team.nodes))
    command_line = build_arguments(vllm.TABLE, options, team.installation)
    args = (
        *vllm.base_arguments(team.model, options, team.net),
        "--distributed-executor-backend",
        "ray",
        *command_line.args,
    )
    head = f"{team.head}:{RAY_PORT}"
    start_command = (
        "start",
        "--head",
        f"--node-ip-address={team.head}",
        f"--port={RAY_PORT}",
        "--disable-usage-stats",
        "--block",
    )
    joins = [
        (_program_beside(team, "ray"), "start", f"--address={head}", f"--node-ip-address={node}", "--block")
        for node in team.nodes[1:]
    ]
    rays = ((_program_beside(team, "ray"), *start_command), *joins)
    env = {**QUIET, "VLLM_NO_USAGE_STATS": "1", "RAY_ADDRESS": head, "VLLM_HOST_IP": team.head}
    return TeamPlan(
        steps=(
            # vLLM's workers inherit the address by which the others reach them from the Ray that starts them.
            *(_step(node, "ray", ray, {"VLLM_HOST_IP": node}) for node, ray in zip(team.nodes, rays, strict=True)),
            _step(team.head, "server", (_program_beside(team, "vllm"), *args), env),
        ),
        base_url=f"http://{team.net.host}:{team.net.port}",
        notes=(_TRUSTING.format(what="Ray"), "Start the server when `ray status` counts every GPU.", _OWN_NAME, _KEY),
    )


def _plan_dynamo(team: Team) -> TeamPlan:
    """Put a worker with the whole model on each computer, and a frontend before them that knows their caches."""
    if team.options.chat_template is not None:
        raise ValueError("Dynamo reads a chat template from a file, which a plan cannot put on each computer.")
    command_line = build_arguments(dynamo.TABLE, team.options, team.installation)
    store = f"http://{team.head}:{ETCD_PORT}"
    etcd = ("etcd", f"--listen-client-urls={store}", f"--advertise-client-urls={store}")
    env = {**QUIET, **dynamo.PLAIN_LOG, "ETCD_ENDPOINTS": store}
    front = dynamo.frontend_arguments(team.net, dynamo.ETCD)
    work = dynamo.worker_arguments(team.model, dynamo.ETCD, command_line.args)
    return TeamPlan(
        steps=(
            _step(team.head, "discovery", etcd),
            _step(team.head, "frontend", (team.python, "-P", "-m", dynamo.FRONTEND, *front), env),
            *(_step(node, "worker", (team.python, "-P", "-m", dynamo.WORKER, *work), env) for node in team.nodes),
        ),
        base_url=f"http://{team.net.host}:{team.net.port}",
        notes=(_TRUSTING.format(what="etcd"), "Dynamo's frontend has no key: it listens on this computer only."),
    )


_NO_ENV: Mapping[str, str] = MappingProxyType({})


def _step(machine: str, role: str, argv: Sequence[str], env: Mapping[str, str] = _NO_ENV) -> TeamStep:
    return TeamStep(machine=machine, process=ProcessSpec(role=role, argv=tuple(argv), env=dict(env)))


def _program_beside(team: Team, program: str) -> str:
    """Return a program of the engine's environment; without one, whatever is on PATH."""
    return str(team.installation.python.parent / program) if team.installation.python else program


_PLANNERS: Mapping[str, Callable[[Team], TeamPlan]] = MappingProxyType({"vllm": _plan_ray, "dynamo": _plan_dynamo})
