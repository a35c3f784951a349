"""The endpoint's dialects, a folder each: routes, and requests, answers and errors to and from the canonical form.

Codecs are pure; only the modules that add routes know of the web.
"""
