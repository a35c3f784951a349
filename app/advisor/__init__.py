"""Pure: which engine this machine deserves, and why. No I/O."""
