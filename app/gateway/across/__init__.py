"""A model over several machines: the tunnel between them, lending memory, and sharing layers out."""
