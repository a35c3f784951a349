"""What this machine can do with a model: the machine, facts of models, what was measured, and the advisor asked."""
