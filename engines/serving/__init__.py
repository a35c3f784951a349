"""The server of our own workers: OpenAI's routes over HTTP/1.1 for libraries that have no server.

One thread does everything: it takes requests, steps the library, and writes what came of it. The libraries keep the
interpreter lock while they compute, so further threads would only wait for each other. Standard library only, and
Jinja for chat templates: it runs inside engines' environments.
"""
