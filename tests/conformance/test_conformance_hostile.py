"""What a hostile test may try on the kernel, the machine and its neighbours, class by class: each is refused, ends as
itself, or stays inside; and the sandbox serves on."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from taskforge.model import Entry
from taskforge.sandbox import PytestJob

CALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    result = libc.syscall(*args)
    return errno.errorcode.get(ctypes.get_errno(), "?") if result < 0 else "done"
"""
ZEROS = "(ctypes.c_char * 256)()"
#: Name of the deed -> the call, by its number on x86-64 and on the others (None: there it is not).
CALLS = {
    "bpf": f"321, 5, {ZEROS}, 128",
    "mount": "165, b'none', b'/tmp', b'tmpfs', 0, None",
    "bind mount": "165, b'/tmp', b'/workspace', None, 4096, None",
    "remount": "165, None, b'/', None, 32 | 4096, None",
    "umount": "166, b'/proc', 2",
    "pivot_root": "155, b'/tmp', b'/tmp'",
    "fsopen": "430, b'tmpfs', 0",
    "open_tree": "428, -100, b'/', 1",
    "swapon": "167, b'/tmp/x', 0",
    "reboot": "169, 0xfee1dead, 672274793, 0, None",
    "sethostname": "170, b'other', 5",
    "init_module": "175, b'', 0, b''",
    "kexec_load": "246, 0, 0, None, 0",
    "iopl": "172, 3",
    "syslog": f"103, 3, {ZEROS}, 256",
    "acct": "163, b'/tmp/acct'",
    "quotactl": "179, 0, b'/dev/vda', 0, None",
    "open_by_handle_at": f"304, -100, {ZEROS}, 0",
    "fanotify_init": "300, 4, 0",
    "setns": "308, os.open('/proc/self/ns/net', 0), 0",
    "unshare": "272, 0x10000000",
    "clone3 into a namespace": "435, (ctypes.c_ulonglong * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0), 64",
    "chroot": "161, b'/tmp'",
    "vhangup": "153",
    "settimeofday": "164, (ctypes.c_long * 2)(0, 0), None",
}


def test_calls_that_are_the_hosts(box, python):
    lines = "\n".join(f"print({name!r}, call({arguments}))" for name, arguments in CALLS.items())
    said = python(box(), CALL + lines).output.decode().splitlines()
    assert [line.rpartition(" ")[0] for line in said] == list(CALLS)
    assert [line for line in said if line.endswith(" done")] == []


def test_what_looks_into_other_processes_or_the_kernel_sees_only_inside(box, python):
    """perf, io_uring and userfaultfd may be allowed by a machine: then of the caller's own doings only."""
    code = CALL + """
def perf(pid, cpu):
    attributes = (ctypes.c_uint32 * 32)(1, 128)  # Software events, this size.
    attributes[10] = 0  # Kernel included.
    return call(298, attributes, pid, cpu, -1, 0)
print(perf(-1, 0), perf(1, -1))
"""
    assert "done" not in python(box(), code).output.decode()


def test_sockets_of_the_kernel(box, python):
    """Families that reach hardware or other machines are refused or lead nowhere."""
    code = """
import socket
def attempt(name, call):
    try: result = call()
    except (OSError, AttributeError): return
    if result is not None: print(name, result)
def kernel_route():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
        one.bind((0, 0))
        # A link made: RTM_NEWLINK of a dummy.
        one.send(b"\\x20\\x00\\x00\\x00\\x10\\x00\\x05\\x06" + bytes(8) + bytes(16))
        import struct
        return struct.unpack_from("i", one.recv(4096), 16)[0] == 0 or None
def vsock():
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as one:
        one.settimeout(1); one.connect((2, 22)); return "connected"
def listening():
    # Names of unix sockets that begin with a zero belong to the namespace of networks.
    with open("/proc/net/unix") as stream: return [line for line in stream if "@" in line] or None
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("can", lambda: socket.socket(socket.AF_CAN, socket.SOCK_RAW, 1))
attempt("bluetooth", lambda: socket.socket(31, socket.SOCK_RAW, 1))
attempt("vsock", vsock)
attempt("unix", listening)
route = None
try: route = kernel_route()
except OSError: pass
print("made a link" if route else "no link")
"""
    assert python(box(), code).output.decode() == "no link\n"


def test_keys_are_not_the_hosts(box, python):
    """Keyrings know no namespace of their own on a machine: what is put there must not be found by the next sandbox."""
    name = uuid.uuid4().hex
    add = CALL + f"print(call(248, b'user', b'{name}', b'secret', 6, -4), call(248, b'user', b'{name}', b's', 1, -5))"
    find = CALL + f"print([call(250, 10, ring, b'user', b'{name}', 0) for ring in (-3, -4, -5)], '{name}' in (open('/proc/keys').read() if os.access('/proc/keys', 4) else ''))"
    python(box(), add)
    said = python(box(), find).output.decode()
    assert "done" not in said
    assert "True" not in said


def test_queues_and_shared_memory_are_the_sandboxes_own(box, python):
    # One that nobody else on this machine has.
    key = random.SystemRandom().randrange(1 << 20, 1 << 30)
    make = CALL + f"print(call(29, {key}, 4096, 0o1666), call(68, {key}, 0o1666), call(64, {key}, 1, 0o1666))"
    find = CALL + f"print(call(29, {key}, 4096, 0), call(68, {key}, 0), call(64, {key}, 1, 0))"
    first, second = box(), box()
    assert python(first, make).output == b"done done done\n"
    assert python(second, find).output == b"ENOENT ENOENT ENOENT\n"
    assert str(key) not in Path("/proc/sysvipc/shm").read_text()


def test_shared_memory_without_a_file_counts_as_memory(box, python):
    """Memory that belongs to no process and no mount: a sandbox cannot outgrow its limit by it, nor keep it."""
    code = CALL + """
import mmap
libc.shmat.restype = ctypes.c_void_p
held = [os.memfd_create("m%d" % n) for n in range(4)]
for fd in held:
    for _ in range(100): os.write(fd, b"x" * (1 << 20))
for key in range(4):
    one = libc.shmget(key + 1, 100 << 20, 0o1600)
    place = libc.shmat(one, None, 0)
    if place and place != ctypes.c_void_p(-1).value: ctypes.memset(place, 1, 100 << 20)
import time; time.sleep(2)
"""
    sandbox = box(memory_mb=256, disk_mb=200)
    result = python(sandbox, code, timeout=60)
    # A file's limit may come before the memory's.
    assert result.ended == "oom" or result.returncode not in (0, None), result


@pytest.mark.parametrize("folder", ["/tmp", "/workspace", "/dev/shm"])
def test_inodes_end(box, python, folder):
    """A disk is full of empty files as well: within the sandbox's memory, and without harm to what comes after."""
    code = f"""
import os
os.makedirs("{folder}/d", exist_ok=True); os.chdir("{folder}/d")
for number in range(3_000_000):
    try: os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    except OSError as error: print(error.errno); break
else: print("no end")
"""
    sandbox = box(memory_mb=256, disk_mb=32)
    result = python(sandbox, code, timeout=60)
    assert b"no end" not in result.output
    assert result.ended in {"done", "oom", "disk_full", "timeout"}


def test_arguments_and_names_without_end(box, python, suite):
    sandbox = box()
    # The kernel's limit for one argument is 128 KiB, for all 2 MiB by default; beyond, nothing starts.
    assert sandbox.exec(["/bin/echo", "x" * (1 << 20)], timeout=10).returncode == 127
    assert sandbox.exec(["/bin/true", *["x" * 1000] * 1000], timeout=10).returncode == 0
    source = "import pytest\nlong = 'x' * (1 << 19)\n@pytest.mark.parametrize('s', [1], ids=[long])\ndef test_long(s): pass\n"
    result, _told = suite(source, sandbox=sandbox)
    assert [(len(report.id) > 1 << 19, report.outcome) for report in result.reports] == [(True, "passed")]


def test_a_crash_leaves_no_core_anywhere(box, suite):
    """The kernel's pattern for core dumps is the machine's; a limit of 0 keeps it from being used."""
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    sandbox = box()
    source = """
import os, resource, signal
def test_limit():
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
    try: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
    except (OSError, ValueError): return
    assert False
def test_crash(): os.kill(os.getpid(), signal.SIGABRT)
"""
    _result, told = suite(source, sandbox=sandbox)
    assert told == {"test_limit": "passed", "test_crash": "ended_early"}
    assert not [path for path in sandbox.read("/workspace") if "core" in path]
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before


def test_control_groups_are_out_of_reach(box, python):
    code = """
import os
found = []
for folder, folders, names in os.walk("/sys/fs/cgroup"):
    for name in names + folders:
        path = os.path.join(folder, name)
        if os.path.islink(path): continue
        if os.access(path, os.W_OK): found.append(path)
    if len(found) > 5: break
for call in (lambda: os.mkdir("/sys/fs/cgroup/mine"), lambda: os.mkdir("/sys/fs/cgroup/memory/mine"),
             lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000")):
    try: call()
    except OSError: continue
    found.append("done")
print(found)
"""
    assert python(box(), code).output == b"[]\n"


def test_the_neighbour_is_neither_seen_nor_reached(box, python):
    """Two sandboxes of one user at once: nothing of the first is in the second."""
    marker = uuid.uuid4().hex
    first, second = box({"mine": Entry(marker.encode())}), box()
    python(first, f"import os, time\nfor place in ('/tmp', '/dev/shm'): open(place + '/{marker}', 'w').write('{marker}')")
    code = f"""
import glob, os, socket
print([path for path in glob.glob('/*/*') + glob.glob('/dev/shm/*') if '{marker}' in path])
print([name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()])
print('{marker}' in open('/proc/self/mountinfo').read(), os.path.exists('/workspace/mine'))
"""
    assert python(second, code).output == b"[]\n['1']\nFalse False\n"
    assert first.exec(["/bin/cat", "mine"], timeout=10).output.decode() == marker


def test_terminals_and_devices(box, python):
    code = """
import fcntl, glob, os, stat, termios
for fd in range(3):
    for request in (0x5412, 0x5423):  # TIOCSTI, TIOCLINUX
        try: fcntl.ioctl(fd, request, b"x"); print("terminal", fd)
        except OSError: pass
try: os.open("/dev/tty", os.O_RDWR); print("a terminal")
except OSError: pass
allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "fuse"}
for folder, _folders, names in os.walk("/dev"):
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and name not in allowed): print(folder, name)
"""
    assert python(box(), code).output == b""


def test_limits_of_the_process_cannot_be_raised(suite):
    source = """
import resource
def test_raise():
    for which in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        soft, hard = resource.getrlimit(which)
        assert hard != resource.RLIM_INFINITY
        try: resource.setrlimit(which, (hard + 1, hard + 1))
        except (OSError, ValueError): continue
        assert False, which
"""
    assert suite(source)[1] == {"test_raise": "passed"}


def test_descriptors_end_without_harm(suite):
    source = """
import os
def test_open_all():
    held = []
    try:
        while True: held.append(os.open("/dev/null", 0))
    except OSError: assert 100 < len(held) <= 4096
    for fd in held: os.close(fd)
def test_last(): pass
"""
    assert suite(source)[1] == {"test_open_all": "passed", "test_last": "passed"}


def test_a_stopped_or_starving_sandbox_keeps_its_deadline(box):
    """All processors taken by as many processes as are allowed, at the best priority there is."""
    tests = b"""
import os
def test_first(): pass
def test_starve():
    for _ in range(40):
        if os.fork() == 0:
            while True: pass
    while True: pass
def test_last(): pass
"""
    result = box({"test_it.py": tests}, pids=64).run(PytestJob(default_limit=2.0))
    assert [report.outcome for report in result.reports] == ["passed", "timeout", "passed"]
    assert result.seconds < 60
