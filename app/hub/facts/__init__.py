"""From the files of a model, in any format, to `ModelFacts`: headers and configurations only, never the weights."""

from app.hub.facts.folders import read_facts

__all__ = ["read_facts"]
