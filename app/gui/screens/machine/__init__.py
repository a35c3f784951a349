"""The computer as it was found, and the engine that follows from it."""
