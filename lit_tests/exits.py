"""`exits.py CODE COMMAND...`: run the command; succeed if it exits with CODE."""

import subprocess
import sys

expected, command = int(sys.argv[1]), sys.argv[2:]
code = subprocess.run(command, check=False).returncode
if code != expected:
    sys.exit(f"exit code {code}, expected {expected}: {' '.join(command)}")
