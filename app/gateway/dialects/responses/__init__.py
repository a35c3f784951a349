"""OpenAI's Responses: requests into canonical ones, canonical events into typed ones.

llama.cpp's own route of that name is not true enough to pass on: no sequence numbers, ends that never come, items that
are refused, and nothing to go on with by its id.
"""
