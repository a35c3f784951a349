"""A gateway that is not there: plausible answers for screenshots and for tests of the screens."""
