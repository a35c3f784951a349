"""A newer Roundhouse: what its owner signed, the file for this copy, and putting it in this copy's place."""
