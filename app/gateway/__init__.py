"""The program that runs engines: an aiohttp application, single instance, loopback only."""
