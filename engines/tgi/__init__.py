"""TGI (Text Generation Inference): archived, and a container only. For those who have one and want to go on with it."""
