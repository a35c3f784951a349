"""`python -m roundhouse_ai` is `roundhouse`."""

from roundhouse_ai.start import main

main()
