"""The models on this machine: what they are, and what can be done with each."""
