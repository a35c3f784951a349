"""The engines: which suit this machine and why, which versions are here, and what installing one does now."""
