"""What clients speak, as pure pairs.

A request is decoded into `canonical.Request`; `canonical.Event`s are encoded into bytes.
"""
