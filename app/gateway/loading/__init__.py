"""From a model's name to a loaded engine: which file, which engine, which options, and the room there is."""
