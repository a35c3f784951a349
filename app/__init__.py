"""Roundhouse: one desktop application, many local inference engines.

`gui` and `cli` talk to the `gateway` over loopback HTTP; the gateway alone runs engines and touches the database.
"""

__version__ = "0.1.0"
