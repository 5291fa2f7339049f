"""How base images are made: a Dockerfile for each language family, pinned references, and a builder without a hub."""

from taskforge_images.recipes import CLEAN, FACTS, context, debian_suite, reference

__all__ = ["CLEAN", "FACTS", "context", "debian_suite", "reference"]
