"""Well-known models by name: their metadata and tensor tables, in any quantisation, without a download.

`app.hub.facts` is imported before anything else of this package: reading Hugging Face configurations needs our
outlines, and our outlines need its rules for layers, so one of the two has to come first whoever is asked for.
"""

from app.hub.facts.gguf import TensorInfo
from app.hub.shapes.facts import requantize, shape_facts, store_as
from app.hub.shapes.shape import ModelShape, find_shape, list_shapes, split_name

__all__ = [
    "ModelShape",
    "TensorInfo",
    "find_shape",
    "list_shapes",
    "requantize",
    "shape_facts",
    "split_name",
    "store_as",
]
