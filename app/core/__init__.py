"""Values, states, errors and events shared by every program. Standard library and msgspec only; no I/O."""
