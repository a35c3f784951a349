"""`python -m app.gateway`."""

import sys

from app.gateway.main import main

if __name__ == "__main__":
    sys.exit(main())
