"""What runs inside a sandbox: standard library only, Python 3.8 and later.

Nothing on the host imports these modules. Their source is the first frame that a sandbox gets (see
``taskforge.sandbox.payload``), and they come to life there as the package ``taskforge_runner``, so that no image and no
environment holds any of taskforge's code. Relative imports only.

``supervisor``  PID 1: reads frames, lays trees, owns limits and deadlines, kills
``session``     one run of pytest seen from the supervisor: restarts, per-test deadlines
``zygote``      the warm interpreter, pytest imported, that forks a worker for each run
``plugin``      pytest hooks in the worker: what was collected, how each test ended
``definitions`` where a collected test is written down
``recorder``    which functions each test entered
``files``, ``frames``, ``processes``   small parts
"""
