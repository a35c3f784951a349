"""What Windows' own calls return, as plain values: what a reader records and a pure function judges."""

import msgspec


class WindowsSystem(msgspec.Struct, frozen=True, kw_only=True):
    """From the registry and IsWow64Process2. `product` says "Windows 10" on Windows 11 too: the build tells."""

    product: str = ""
    display_version: str = ""
    build: int = 0
    revision: int = 0
    maker: str = ""
    model: str = ""
    """Of the computer, as its firmware says; virtual machines name themselves here."""
    native_machine: int = 0
    """IMAGE_FILE_MACHINE_*: 0x8664 for x64, 0xAA64 for Arm64."""
    built_for: str = ""
    """What this interpreter was built for: "win-amd64", "win-arm64"."""
    wsl_distributions: int = 0
    wsl_memory: str = ""
    """`memory=` of .wslconfig, such as "24GB"."""


class CoreKind(msgspec.Struct, frozen=True, order=True):
    """So many equal cores. A higher efficiency class is a faster core; on machines of one kind all are 0."""

    efficiency_class: int
    threads: int
    """Of each core."""
    count: int


class WindowsCpu(msgspec.Struct, frozen=True, kw_only=True):
    """`features` are the PF_* numbers IsProcessorFeaturePresent said yes to, which include the system's support."""

    name: str = ""
    vendor: str = ""
    identifier: str = ""
    """Family, model and stepping: "AMD64 Family 23 Model 1 Stepping 2"."""
    cores: list[CoreKind] = []
    cache_bytes: int = 0
    features: list[int] = []
    logical: int = 0
    affinity: int = 0
    """Processors this process may run on; 0 when it spans processor groups, where one mask cannot tell."""


class WindowsMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes. `installed` is what the firmware counts in modules; the system gets that less what a GPU had set aside."""

    total: int
    available: int
    commit_limit: int
    commit_available: int
    installed: int | None = None
    job_limit: int | None = None


class DxgiAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """One DXGI adapter, bytes. `address` is PCI bus, device and function; `kind` D3DKMT_ADAPTERTYPE's bits."""

    name: str
    vendor_id: int
    device_id: int
    subsystem_id: int = 0
    revision: int = 0
    luid: str = ""
    """Changes with each start of the system: it joins what is read now, and is no identity."""
    flags: int = 0
    dedicated_video: int = 0
    dedicated_system: int = 0
    shared_system: int = 0
    local_budget: int | None = None
    local_usage: int | None = None
    has_output: bool = False
    address: list[int] = []
    kind: int | None = None


class DeviceDriver(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a device class in the registry. `memory_size`: REG_QWORD as a number, REG_BINARY as hexadecimal."""

    description: str = ""
    provider: str = ""
    version: str = ""
    matching_device_id: str = ""
    memory_size: int | str | None = None


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """The drivers ever installed for a class, and the hardware ids ("PCI/VEN_8086&DEV_7D1D") of what is there now."""

    drivers: list[DeviceDriver] = []
    present: list[str] = []


class AdapterUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes all processes together use on an adapter, as Task Manager shows them."""

    luid: str
    dedicated: int = 0
    shared: int = 0
