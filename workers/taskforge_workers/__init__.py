"""Workers of the service. Nothing runs here yet: the package holds the name, so that the wheel never claims ``workers``."""
