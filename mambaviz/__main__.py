"""Entry of ``python -m mambaviz``: `mambaviz.command_line`, or a sentence where it cannot start."""

import sys

try:
    from mambaviz.command_line import main
except ImportError as error:
    sys.exit(
        f"mambaviz cannot start: {error}. Install its packages anew: "
        "python -m pip install --force-reinstall -r requirements.txt"
    )

if __name__ == "__main__":
    sys.exit(main())
