"""What a hub has: searched, named, described and remembered."""
