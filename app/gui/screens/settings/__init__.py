"""The settings table as a page."""
