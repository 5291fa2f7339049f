"""Never could be imported: a module that is not asked for."""

import a_module_that_nobody_has  # noqa: F401
