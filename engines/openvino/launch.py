"""OpenVINO GenAI's adapter: which device computes, how its KV cache is stored, and who serves."""

from collections.abc import Mapping

from engines.api import Failure, Installation, LaunchOptions, LaunchPlan, ModelSource, Net, Place
from engines.openvino import model_server
from engines.openvino.descriptor import DESCRIPTOR
from engines.openvino.devices import device_of, precision_of
from engines.openvino.failures import READER
from engines.worker_adapter import Library, WorkerAdapter


def configure(options: LaunchOptions, found: Installation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a device or cache it has not."""
    return {"device": device_of(options, found), "kv_precision": precision_of(options)}


class OpenVino(WorkerAdapter):
    """The library behind our own server, or Intel's model server where a program of it is given."""

    def probe(self, place: Place | None = None) -> Installation | Failure:
        """Find the library, or the program in `place`."""
        if place is not None and place.executable is not None:
            return Installation(
                engine=DESCRIPTOR.id, version=place.version, backend=place.backend, executable=place.executable
            )
        return super().probe(place)

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        """Return one process that listens where `net` says. Raises ValueError for options it cannot honour."""
        self.check(model, options)
        if found.executable is not None:
            return model_server.plan(model, options, net, found)
        return super().plan(model, options, net, found)


ADAPTER = OpenVino(
    Library(
        about=DESCRIPTOR,
        reader=READER,
        worker="engines.openvino.worker",
        distribution="openvino-genai",
        configure=configure,
    )
)
