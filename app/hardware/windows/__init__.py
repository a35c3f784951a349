"""Windows: what its calls return, recorded as plain values, and what they mean."""
