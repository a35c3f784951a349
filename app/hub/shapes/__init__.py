"""Well-known models by name: their metadata and tensor tables, in any quantisation, without a download.

`app.hub.facts` is imported before anything else of this package: reading Hugging Face configurations needs our
outlines, and our outlines need its rules for layers, so one of the two has to come first whoever is asked for.
"""

from app.hub.facts.gguf import TensorInfo
from app.hub.shapes.facts import requantized, shape_facts
from app.hub.shapes.names import split_name
from app.hub.shapes.shape import Shape
from app.hub.shapes.table import find, shapes

__all__ = ["Shape", "TensorInfo", "find", "requantized", "shape_facts", "shapes", "split_name"]
