"""Models that could be here: found, judged for this machine, and downloaded."""
