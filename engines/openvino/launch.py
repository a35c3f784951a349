"""OpenVINO GenAI's adapter: which device computes, how its KV cache is stored, and who serves."""

from collections.abc import Mapping

from engines.api import (
    EngineInstallation,
    EngineLocation,
    Failure,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelSource,
)
from engines.openvino import model_server
from engines.openvino.descriptor import DESCRIPTOR
from engines.openvino.failures import READER
from engines.openvino.model_server import device_of, precision_of
from engines.worker_adapter import WorkerAdapter, WorkerRecipe


def build_worker_config(options: LaunchOptions, installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a device or cache it has not."""
    return {"device": device_of(options, installation), "kv_precision": precision_of(options)}


class OpenVinoAdapter(WorkerAdapter):
    """The library behind our own server, or Intel's model server where a program of it is given."""

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Find the library, or the program in `place`."""
        if place is not None and place.executable is not None:
            return EngineInstallation(
                engine=DESCRIPTOR.id, version=place.version, backend=place.backend, executable=place.executable
            )
        return super().probe(place)

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one process that listens where `net` says. Raises ValueError for options it cannot honour."""
        self.check(model, options)
        if installation.executable is not None:
            return model_server.plan_model_server(model, options, net, installation)
        return super().plan(model, options, net, installation)


ADAPTER = OpenVinoAdapter(
    WorkerRecipe(
        about=DESCRIPTOR,
        reader=READER,
        worker="engines.openvino.worker",
        distribution="openvino-genai",
        configure=build_worker_config,
    )
)
