"""The store of engines as the gateway runs it: jobs, proofs, and what happens when a version fails."""
