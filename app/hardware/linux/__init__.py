"""Linux: the small files of /proc, /sys and control groups, and what they mean."""
