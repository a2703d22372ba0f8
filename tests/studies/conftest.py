"""The studies are scripts, which import each other by their names from the folder `studies`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "studies"))
