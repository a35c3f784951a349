"""Programs of other people that the gateway hosts, each through a process of ours: what servers and agents share."""
