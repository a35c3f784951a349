"""The dialect every engine is asked in: OpenAI's chat completions, completions, and llama-server's infill."""
