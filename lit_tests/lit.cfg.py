"""lit configuration: `lit lit_tests`. One file, one promise."""

import os
import sys

import lit.formats

here = os.path.dirname(os.path.abspath(__file__))
config.name = "kcheck"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ptx", ".test"]
config.excludes = ["inputs"]
config.test_source_root = here
config.test_exec_root = os.path.join(os.path.dirname(here), "build", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
)
config.environment["PYTHONPATH"] = os.path.dirname(here)
config.substitutions += [
    ("%kcheck", f"{sys.executable} -m kcheck"),
    ("%python", sys.executable),
    ("%exits", f"{sys.executable} {os.path.join(here, 'exits.py')}"),
    ("%inputs", os.path.join(here, "inputs")),
]
