"""An engine that nobody has: the whole folder of one, to be put into `engines` by a test (`test_added_engine`).

There, `tests.made_up_engine` is called `engines.made_up`.
"""
