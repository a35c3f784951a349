"""Which engine a machine deserves: the guide as a table, what it asks of a machine, and the answer in words."""
