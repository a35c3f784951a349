"""A request on its way to an engine, and the answer on its way back."""
