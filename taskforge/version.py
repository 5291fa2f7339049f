"""The version of the distribution, and of everything whose change makes old results incomparable."""

__version__ = "0.1.0"

#: Part of every verdict and cache key. Raise it when the same submission could get another verdict.
GRADER_VERSION = "1"

#: Layout of a corpus on disk. A reader refuses a newer one and names the remedy.
CORPUS_SCHEMA = 1
