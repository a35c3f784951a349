"""llama.cpp's memory as it prints it itself: weights by layer, caches, and the graph it computes."""
