"""A package, as the original's."""
