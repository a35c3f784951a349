"""From the files of a model, in any format, to `ModelFacts`: headers and configurations only, never the weights."""
