"""The window as a person has it: on a display of its own, by keys and mouse, read as a screen reader reads it."""
