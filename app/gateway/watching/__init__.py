"""What goes on and went on: each exchange timed and listed, metrics, logs, and the diagnostic bundle."""
