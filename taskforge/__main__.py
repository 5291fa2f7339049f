"""``python -m taskforge``."""

from taskforge.cli import main

main()
