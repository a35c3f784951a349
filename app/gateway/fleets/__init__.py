"""Fleets: one model over several replicas, some of them engines of this computer, behind a router."""
