"""`python -m app.gateway`."""

import signal
import sys

if __name__ == "__main__":
    # Until the event loop takes Ctrl-C over, it simply ends us: there is nothing yet to be put in order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.gateway.main import main

    sys.exit(main())
