"""Graphics cards, by maker and by the library that knows them; and each card once, whoever saw it."""
