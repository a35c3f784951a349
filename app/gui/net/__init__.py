"""How the window talks to the gateway: on Qt's own network classes, never blocking, every reply decoded to a value."""
