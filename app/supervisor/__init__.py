"""Engine processes: one owner task each, `ensure_ready` the only way in."""
