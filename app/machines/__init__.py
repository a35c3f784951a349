"""Computers of one person that know each other: who each is, how two are paired, where they are, how one is woken."""
