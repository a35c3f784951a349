"""macOS: what `sysctl`, `vm_stat` and Metal say, and what it means."""
