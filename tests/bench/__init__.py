"""Measurements with targets: `python -m app.bench` runs them all and says which hold."""
