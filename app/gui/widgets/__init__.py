"""The parts every screen is made of. Each paints itself from the theme, scales, has a name and takes the keyboard."""
