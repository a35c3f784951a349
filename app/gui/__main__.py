"""`python -m app.gui` opens the window."""

import sys

from app.gui.main import main

sys.exit(main())
