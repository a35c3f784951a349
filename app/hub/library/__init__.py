"""The models that lie here or are attached: found, named, and shown by what their headers say."""
