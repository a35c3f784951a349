"""The settings table, its TOML file, the environment, and where files live. The one place that reads `os.environ`."""
