"""One file per tool: how it is found, what is edited, and what is said afterwards."""
