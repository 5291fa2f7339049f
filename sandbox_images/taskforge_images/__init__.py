"""Dockerfiles by language family and the base-image builder. Empty until the docker sandbox lands."""
