"""`python -m app.gateway`."""

import gc
import signal
import sys

if __name__ == "__main__":
    # Until the event loop takes Ctrl-C over, it simply ends us: there is nothing yet to be put in order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Nothing of what starting makes is garbage, and looking for it takes a tenth of the start; `runtime` enables it.
    gc.disable()
    from app.gateway.main import main

    sys.exit(main())
