"""ExLlamaV2 and ExLlamaV3: libraries without a server, on our own; one worker, two backends."""
