"""A hub on this machine, as Hugging Face's programs and ours know it; `faults` makes it misbehave."""
