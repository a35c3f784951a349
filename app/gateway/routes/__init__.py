"""What the endpoint answers: a module for each group of routes of each dialect."""
