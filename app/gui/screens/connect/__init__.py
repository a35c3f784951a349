"""Tools on this computer, and wiring them to the endpoint."""
