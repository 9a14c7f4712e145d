"""The version, for whoever needs nothing else of the package."""

from pathlib import Path

VERSION = "0.1.0"
TOP = Path(__file__).resolve().parents[1]  # the folder from which `import servonode` finds the package
