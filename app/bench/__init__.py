"""The honest benchmark."""
