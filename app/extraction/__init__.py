"""From a file to what a model can be given of it: text, or a picture. Run in a process of its own, with limits."""
