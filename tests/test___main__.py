import subprocess
import sys


def test_the_package_is_a_command():
    said = subprocess.run([sys.executable, "-m", "tilelang", "cache"], capture_output=True, text=True, check=True)
    assert " entries, " in said.stdout
