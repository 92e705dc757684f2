"""`python -m tilelang`: looks at this machine and at kernels."""

import sys

from tilelang.tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
