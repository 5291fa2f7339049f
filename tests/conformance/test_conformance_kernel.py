"""The kernel's own files: who owns them outside is who may write them, whatever the namespace says, so that they must
be out of reach by other means. Found by trying: as host root, ``/proc/sys/kernel/core_pattern`` could be set."""

from __future__ import annotations

# Opens for writing and closes again: no byte is written, so that a sandbox which lets it pass harms nothing here.
OPENABLE = """
import os, stat
found = []
for folder, folders, names in os.walk("/proc"):
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdigit() and name not in ("self", "thread-self", "net")]
    for name in names:
        path = os.path.join(folder, name)
        status = os.lstat(path)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3):
            # Masked by /dev/null.
            continue
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        os.close(fd)
        found.append(path)
print(len(found), found[:5])
"""


def test_no_file_of_the_kernel_can_be_opened_for_writing(box, python):
    assert python(box(), OPENABLE).output.decode() == "0 []\n"


def test_the_kernels_secrets_are_not_there(box, python):
    code = """
for name in ("kcore", "kmsg", "kallsyms", "keys", "iomem", "timer_list", "slabinfo", "cmdline"):
    try:
        print(name, len(open("/proc/" + name, "rb").read(1)))
    except OSError:
        continue
import os
print([name for folder in ("/sys/kernel", "/sys/class") if os.path.isdir(folder) for name in os.listdir(folder)])
"""
    said = python(box(), code).output.decode().split("\n")
    assert [line for line in said if line.endswith(" 1")] == []
    assert said[-2] == "[]"


def test_what_tests_need_of_proc_is_there(box, python):
    code = "import os\nprint(open('/proc/self/comm').read().strip(), os.cpu_count() > 0, len(open('/proc/meminfo').read()) > 100)"
    assert python(box(), code).output.decode() == "python True True\n"
