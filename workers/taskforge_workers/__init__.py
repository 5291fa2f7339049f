"""Workers of the service. Empty yet: the package holds the name, so that the wheel never claims ``workers``."""
