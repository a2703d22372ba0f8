"""`python -m narrows`."""

import sys

from narrows.cli import main

sys.exit(main())
