"""taskforge: verified re-implementation tasks from real repositories."""

from taskforge.version import __version__

__all__ = ["__version__"]
