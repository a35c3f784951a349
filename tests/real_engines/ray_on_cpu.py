"""Ray that counts a processor as a card, so that vLLM's build for processors runs over it.

vLLM says "current platform cpu does not support ray". Its plug-in for platforms lets a subclass say otherwise; it is
found by the record of a distribution, and both are put into a folder for `PYTHONPATH`.
"""

from pathlib import Path

_PLATFORM = """
def register():
    return "ray_cpu_platform.RayCpuPlatform"


def __getattr__(name):
    if name != "RayCpuPlatform":
        raise AttributeError(name)
    from vllm.platforms.cpu import CpuPlatform

    class RayCpuPlatform(CpuPlatform):
        ray_device_key = "GPU"

    globals()[name] = RayCpuPlatform
    return RayCpuPlatform
"""
_RECORD = {
    "METADATA": "Metadata-Version: 2.1\nName: ray-cpu-platform\nVersion: 1.0\n",
    "entry_points.txt": "[vllm.platform_plugins]\nray_cpu = ray_cpu_platform:register\n",
}


def write_platform(folder: Path) -> None:
    """Write the plug-in and its record into `folder`, which is made."""
    record = folder / "ray_cpu_platform-1.0.dist-info"
    record.mkdir(parents=True)
    (folder / "ray_cpu_platform.py").write_text(_PLATFORM)
    for name, text in _RECORD.items():
        (record / name).write_text(text)
