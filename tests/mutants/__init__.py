"""How many one-token changes of the code the tests notice: `make mutants`."""
