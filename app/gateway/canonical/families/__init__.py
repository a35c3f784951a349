"""How families of models write what is not plain text: tool calls and reasoning. Pure, and read as it is written.

An engine that hands on a model's raw text is read here; one that parses it itself never gets here.
"""
