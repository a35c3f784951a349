"""`python -m app.cli` is `roundhouse`."""

from app.cli.main import main

main()
