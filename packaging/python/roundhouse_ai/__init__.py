"""Roundhouse as it lies among the packages of a Python environment: its folders, and the start of its processes."""
