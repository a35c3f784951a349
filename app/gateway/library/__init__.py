"""The models that are here: noticed, looked through, set, and the disk they take."""
