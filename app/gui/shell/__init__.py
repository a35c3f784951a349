"""The frame around the screens: rail, page stack, palette, menu, window state."""
