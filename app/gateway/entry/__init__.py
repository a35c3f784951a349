"""The way in: who may call, what of a request is read, and how a refusal looks."""
