"""The `roundhouse` command, one file per noun. Imports neither Qt nor aiohttp."""
