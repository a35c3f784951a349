"""The one way out: every connection to another computer passes `egress`, which notes it or, offline, refuses it.

What connects is here too, in the ways the parts of Roundhouse do it: for urllib (`urls`), for aiohttp (`connector`),
and for programs that are not ours (`relay`). A connection made any other way is a mistake; a test watches for it.
"""
