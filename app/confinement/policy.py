"""Which files, devices and ports an engine needs: from what is known of its launch, the rules. Pure.

System folders hold programs and libraries that every account may read. Of `/etc` only what libraries ask for is named;
nothing of a person's home is, but the model and what the engine itself consists of.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from urllib.parse import urlsplit

import msgspec

from app.confinement.rules import ConfinementRules, PortRange
from engines.api import Descriptor, EngineFamily, LaunchOptions

PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/run/opengl-driver"),
)
"""Programs and libraries of the system, drivers' too; on NixOS and Guix they lie elsewhere."""
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "os-release", "mime.types"),
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf", "gai.conf", "localtime", "timezone"),
    *("OpenCL", "vulkan", "glvnd", "nvidia", "amd", "ssl/openssl.cnf", "ssl/certs", "pki/tls", "python3", "magic"),
)
SYSTEM_FACTS = ("/proc", "/sys", "/run/udev/data", *(f"/etc/{name}" for name in _ETC))
"""What libraries look up: the processor, memory and devices. Other programs' memory is refused there all the same."""
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- where the system keeps it; no file of ours
_CUDA_DEVICES = ("/dev/nvidia", "/dev/dxg")
"""Nodes of NVIDIA's driver, and of Windows' GPUs in WSL, of which CUDA takes those of NVIDIA."""
_ALONE_TASKS, _TASKS_PER_CORE = 256, 16
_HELPED_TASKS, _HELPED_TASKS_PER_CORE = 2048, 64
"""Processes and threads: OpenMP, a thread pool and HTTP each take about one per core, PyTorch three, Ray dozens."""


class LaunchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one launch. Paths are absolute, and lead to where files really are."""

    about: Descriptor
    options: LaunchOptions
    backend: str
    models: tuple[str, ...]
    """Files and folders: weights, adapters, projectors, drafts."""
    programs: tuple[str, ...]
    """What the engine consists of: its environment, its interpreter, its program and libraries."""
    import_roots: tuple[str, ...] = ()
    """Folders in which its interpreter looks for our packages; it may list them."""
    packages: tuple[str, ...] = ()
    """The packages in them that it gets: `engines`, and that of the module it is started with."""
    scratch: str
    home: str
    """Its own, which it keeps between runs, for what it compiles."""
    short: str
    """For temporary files: sockets there have names of 107 characters at most."""
    port: int
    states: str = ""
    """Where it writes states of slots; empty if it does not."""


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of this computer."""

    cores: int
    home: str
    devices: tuple[str, ...] = ()
    """Nodes of GPUs and NPUs, and folders of them."""
    passing_ports: PortRange
    """From which the kernel takes those that a program does not name."""


def confine_engine(launch: LaunchFacts, machine: MachineFacts) -> ConfinementRules | None:
    """Return the rules for an engine; None for a client of a container, which has its own."""
    if launch.about.family in {EngineFamily.CONTAINER, EngineFamily.EXTERNAL}:
        return None
    alone = works_alone(launch.about, launch.options)
    shares_memory = not alone or launch.backend == "rocm"  # its runtime keeps locks there
    devices = machine.devices if uses_devices(launch.about, launch.backend) else ()
    return ConfinementRules(
        list=("/dev", *launch.import_roots),
        read=(*SYSTEM_FACTS, *_narrow(launch.models, machine.home)),
        run=(*PROGRAMS, *_narrow(launch.programs, machine.home), *launch.packages),
        write=tuple(
            filter(None, (launch.scratch, launch.home, launch.short, launch.states, SHARED_MEMORY * shares_memory))
        ),
        devices=(*PLAIN_DEVICES, *devices),
        names_threads=any(device.startswith(_CUDA_DEVICES) for device in devices),
        bind=(launch.port,) if alone or launch.options.rpc_servers else (launch.port, _ANY_FREE_PORT),
        connect=() if alone else _connectable_ports(launch, machine),
        is_alone=alone,
        has_own_network=launch.options.node is not None,
        tasks=_tasks(machine.cores, is_alone=alone),
    )


def _connectable_ports(launch: LaunchFacts, machine: MachineFacts) -> tuple[PortRange, ...]:
    """Return where it may connect to: for layers on other machines, the tunnels' ends alone."""
    if launch.options.node is not None:
        return ()
    if launch.options.rpc_servers:
        ports = (int(server.rpartition(":")[2]) for server in launch.options.rpc_servers)
        return tuple(PortRange(port, port) for port in ports)
    collector = urlsplit(launch.options.traces_url).port
    traces = () if collector is None else (PortRange(collector, collector),)
    return (*traces, PortRange(_first_port(launch.about, machine), _LAST_PORT))


_ANY_FREE_PORT = 0
_LAST_PORT = 65535
"""Servers that choose their own ports count up from one they were given."""


def _first_port(about: Descriptor, machine: MachineFacts) -> int:
    """Return the least port an engine may connect to: a router's replicas listen on any, helpers on passing ones."""
    return 1 if about.family is EngineFamily.ROUTER else machine.passing_ports.first


def works_alone(about: Descriptor, options: LaunchOptions) -> bool:
    """Tell whether an engine needs no helpers: over several devices, libraries such as NCCL connect to themselves."""
    is_spread = len(options.device_ids) > 1 or options.tensor_parallel > 1 or options.pipeline_parallel > 1
    is_helped = any(getattr(options, option) for option in about.helped_with)
    return not (about.has_helpers or is_spread or is_helped or options.split_ratio or options.is_over_computers)


def uses_devices(about: Descriptor, backend: str) -> bool:
    """Tell whether an engine may compute on something other than the processor."""
    return backend != "cpu" or "gpu" in about.accelerators  # OpenVINO finds the devices of one build by itself


def own_environment(launch: LaunchFacts) -> Mapping[str, str]:
    """Return what has an engine look for its home and temporary files where it may write."""
    return {
        "HOME": launch.home,
        "XDG_CACHE_HOME": f"{launch.home}/.cache",
        "XDG_CONFIG_HOME": f"{launch.home}/.config",
        "XDG_DATA_HOME": f"{launch.home}/.local/share",
        "XDG_STATE_HOME": f"{launch.home}/.local/state",
        "XDG_RUNTIME_DIR": launch.short,
        "TMPDIR": launch.short,
    }


def _tasks(cores: int, *, is_alone: bool) -> int:
    if is_alone:
        return _ALONE_TASKS + _TASKS_PER_CORE * cores
    return _HELPED_TASKS + _HELPED_TASKS_PER_CORE * cores


def _narrow(paths: Iterable[str], home: str) -> tuple[str, ...]:
    """Leave out what would open a person's whole home, or all there is."""
    return tuple(path for path in dict.fromkeys(paths) if not PurePath(home).is_relative_to(path))
