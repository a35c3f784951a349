"""How the command line, the window and the tests reach the gateway."""
