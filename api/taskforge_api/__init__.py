"""The HTTP service. Nothing is served yet: the package holds the name, so that the wheel never claims ``api``."""
