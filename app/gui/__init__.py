"""The window: Qt Widgets, a client of the gateway like any other."""
