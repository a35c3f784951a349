"""OpenVINO Model Server (`ovms`): the same library behind Intel's own server, where a program of it is given.

From the documentation of 2026.4. It listens on every address unless told otherwise, and takes a port of 0 for "none".

What OpenVINO calls devices and KV cache types, for the library and for the model server.
"""

import re

from engines.api import (
    EngineInstallation,
    LaunchFile,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelSource,
    OmittedOption,
    ProcessSpec,
    Readiness,
    StopPlan,
)

KEY_FILE = "api_key"
"""In the launch's private folder, where it is started: the server reads its key from a file only."""
_UNSET = LaunchOptions()
_LEFT_OUT = {
    "context": "OpenVINO Model Server gives every request the context the model was made for.",
    "threads": "OpenVINO Model Server chooses its number of threads itself.",
    "sampling": "OpenVINO Model Server takes the sampling that lies with the model.",
}


def plan_model_server(
    model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
) -> LaunchPlan:
    """Return one server process. Raises ValueError for a device or cache it has not."""
    if installation.executable is None:
        raise ValueError("This installation has no model server.")
    if options.chat_template is not None:
        raise ValueError("OpenVINO Model Server takes the chat template that lies with the model, and no other.")
    root = installation.executable.parent.parent
    process = ProcessSpec(
        role="server",
        argv=(str(installation.executable), *_server_arguments(model, options, net, installation)),
        env={
            # What its `setupvars` sets: its own libraries, and Python for chat templates.
            "LD_LIBRARY_PATH": str(root / "lib"),
            "PYTHONPATH": str(root / "lib" / "python"),
            **options.extra_env,
        },
    )
    return LaunchPlan(
        processes=(process,),
        base_url=f"http://{net.host}:{net.port}",
        served_name=model.name,
        readiness=Readiness(path=f"/v2/models/{model.name}/ready", interval_s=0.25, stall_s=300.0),
        stop=StopPlan(grace_s=10.0),
        files=(LaunchFile(name=KEY_FILE, content=net.key.encode()),),
        slots=options.slots,
        left_out=tuple(
            OmittedOption(option=name, sentence=_LEFT_OUT[name]) for name in _LEFT_OUT if _is_set(options, name)
        ),
    )


def _is_set(options: LaunchOptions, name: str) -> bool:
    return bool(getattr(options, name) != getattr(_UNSET, name))


def _server_arguments(
    model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
) -> list[str]:
    return [
        *("--rest_bind_address", net.host, "--rest_port", str(net.port), "--api_key_file", KEY_FILE),
        *("--model_name", model.name, "--model_path", str(model.path), "--task", "text_generation"),
        *("--target_device", device_of(options, installation), "--max_num_seqs", str(options.slots)),
        *("--enable_prefix_caching", "true" if options.prefix_cache else "false"),
        *("--kv_cache_precision", precision_of(options)),
        *(("--max_num_batched_tokens", str(options.max_batch_tokens)) if options.max_batch_tokens else ()),
        *("--cache_size", "0", "--metrics_enable", "--log_level", "INFO"),
    ]


KV_PRECISIONS = {"f16": "f16", "bf16": "bf16", "q8_0": "u8"}
"""Our names of KV cache types -> OpenVINO's. It keeps f32 only where it decides to compute in f32 too."""
_DEVICE = re.compile(r"CPU|GPU(\.\d{1,2})?")


def device_of(options: LaunchOptions, installation: EngineInstallation) -> str:
    """Return the device in OpenVINO's words. Raises ValueError for one it has not.

    A device that is not there ends the load: nothing else is taken in its place.
    """
    device_name = options.device_ids[0].upper() if options.device_ids else installation.backend.upper()
    device = f"GPU.{device_name}" if device_name.isdigit() else device_name
    if device == "NPU":
        raise ValueError("NPUs are not possible with OpenVINO GenAI yet: they take one request at a time.")
    if not _DEVICE.fullmatch(device):
        raise ValueError(f"OpenVINO GenAI knows no device {device_name}; it has CPU, GPU and GPU.1 and so on.")
    return device


def precision_of(options: LaunchOptions) -> str:
    """Return how the KV cache is kept. Raises ValueError for a type it has not.

    Left to itself, OpenVINO keeps 8 bits of most models on the processor, which no plan would say.
    """
    kv_type = options.kv_type or "f16"
    if kv_type not in KV_PRECISIONS:
        raise ValueError(f"OpenVINO GenAI keeps its KV cache as one of {', '.join(KV_PRECISIONS)}.")
    return KV_PRECISIONS[kv_type]
