"""Run the tests of `make test`, and say loudly what could not be run here.

As root all tiers run. Without root the kernel tier (loop devices, mkfs, mounts) is left out, in one line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

LEFT_OUT = (
    "LEFT OUT: the kernel tier (loop devices, mkfs, mounts) needs root; run `sudo make test` for all tests"
)


def main() -> int:
    """Run pytest with the tiers that this user can run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--junit", default="build/reports/test.xml", help="where the JUnit report goes")
    options, rest = parser.parse_known_args()
    root = os.geteuid() == 0
    tiers = "not real" if root else "not real and not kernel"
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", tiers, f"--junit-xml={options.junit}", *rest], check=False
    ).returncode
    if not root:
        print(LEFT_OUT)
    return code


if __name__ == "__main__":
    sys.exit(main())
