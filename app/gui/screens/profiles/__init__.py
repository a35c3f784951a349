"""The page of profiles: sets of models with their pins, contexts, aliases and hours."""
