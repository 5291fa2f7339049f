"""Who submitted code is inside, what it sees, and what it can do to the machinery around it."""



from __future__ import annotations

import socket
from pathlib import Path

import pytest


def test_an_unprivileged_user_without_capabilities(box, python):
    code = "import os\nprint(os.getresuid())\nprint(open('/proc/self/status').read())"
    said = python(box(), code).output.decode()
    uid = said.split(",", maxsplit=1)[0].lstrip("(")
    assert int(uid) >= 1000
    fields = dict(line.split(":", 1) for line in said.splitlines()[1:] if ":" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1"


def test_setuid_and_namespaces_give_nothing(box, python):
    code = """
import ctypes, os, shutil
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x10000000 | 0x20000, 0x20000, 0x40000000, 0x20000000):
    if os.fork() == 0:
        if libc.unshare(flag) == 0: print("UNSHARED", hex(flag), flush=True)
        os._exit(0)
    os.wait()
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp"),
             lambda: os.mknod("/tmp/dev", 0o20666, os.makedev(1, 1)), lambda: os.nice(-5),
             lambda: os.chown("/tmp/home", 0, 0)):
    try: call()
    except OSError: continue
    print("DONE", call.__code__.co_names)
shutil.copy("/bin/sh", "/tmp/sh"); os.chmod("/tmp/sh", 0o6755)
print(os.popen("/tmp/sh -p -c 'id -u'; command -v su >/dev/null && su -c 'id -u' </dev/null 2>/dev/null").read().split())
"""
    assert python(box(), code).output.decode() == "['1000']\n"


def test_no_network_but_loopback(box, python):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        code = """
import socket, sys, threading
for where in (("1.1.1.1", 80), ("127.0.0.1", int(sys.argv[1])), ("10.0.0.1", 22), ("169.254.169.254", 80)):
    try: socket.create_connection(where, timeout=1)
    except OSError: continue
    print("CONNECTED", where)
try: socket.getaddrinfo("example.com", 80)
except OSError: print("no names")
with socket.create_server(("127.0.0.1", 0)) as server:
    threading.Thread(target=lambda: socket.create_connection(server.getsockname()).sendall(b"own")).start()
    print(server.accept()[0].recv(3))
print(socket.gethostname(), [name for _n, name in socket.if_nameindex()])
"""
        said = python(box(), code, str(server.getsockname()[1])).output.decode()
        assert said == "no names\nb'own'\nsandbox ['lo']\n"
        with pytest.raises(TimeoutError):
            server.accept()


def test_nothing_of_the_host_is_seen(box, python, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("TASKFORGE_SECRET", "secret-of-the-host")
    code = """
import glob, os, sys
print(sorted(os.environ))
print([name for name in sys.argv[1:] if os.path.exists(name)])
print(sorted(os.listdir("/etc")), os.listdir("/home") if os.path.exists("/home") else [])
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) < 3))
print(os.listdir("/tmp"), glob.glob("/sys/[!f]*/*") + glob.glob("/sys/fi*/*"))
print([open(name).read() for name in ("/etc/hostname", "/etc/resolv.conf") if os.path.exists(name)])
for place in ("/proc/self/environ", "/proc/1/environ", "/proc/1/cmdline"):
    try: print("secret" in open(place).read())
    except OSError: print(False)
"""
    here = str(Path(__file__).resolve())
    hidden = [str(tmp_path / "secret"), here, "/etc/shadow", "/root/.ssh", "/root/.cache",
              "/var/lib", "/usr/share/doc", "/run", "/var/run/docker.sock", str(Path.home() / ".bashrc")]  # fmt: skip
    said = python(box(), code, *hidden).output.decode().splitlines()
    assert eval(said[0]) == [
        "HOME", "LANG", "LC_ALL", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"
    ]  # fmt: skip
    assert said[1] == "[]"
    allowed = {"passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
               "mime.types", "hostname", "resolv.conf", "mtab"}  # fmt: skip
    assert set(eval(said[2].rpartition(" []")[0])) <= allowed
    assert said[2].endswith("] []")
    assert said[3].startswith("[1")
    assert said[4] == "['home'] []"
    # A container runtime writes its own of these two; they name nothing of the host.
    assert said[5] in {"[]", r"['sandbox\n', '']", r"['sandbox\n', 'search .\nnameserver 127.0.0.1\n']"}
    assert said[6:] == ["False"] * 3


ON_THE_MACHINERY = '''
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
done = []
def attempt(name, call):
    try: call()
    except OSError: return
    done.append(name)
def read(path, flags):
    # Some of these open for anyone, and are refused or empty when read.
    if not os.read(os.open(path, flags), 8): raise OSError(1, "empty")
def syscall(*args):
    if libc.syscall(*args) < 0: raise OSError(ctypes.get_errno(), "syscall")
def writev(pid):
    data = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(data), 8)
    far = (ctypes.c_void_p * 2)(0x400000, 8)
    for call in (libc.process_vm_readv, libc.process_vm_writev):
        # EFAULT would be the answer of someone who may.
        if call(pid, vector, 1, far, 1, 0) < 0 and ctypes.get_errno() == 1: continue
        return
    raise OSError(1, "process_vm")
def steal(pid):
    handle = os.pidfd_open(pid)
    for number in range(16):
        if libc.syscall(438, handle, number, 0) >= 0: return
    raise OSError(ctypes.get_errno(), "pidfd_getfd")
for pid in [int(word) for word in sys.argv[1:]] or [1, os.getppid()]:
    for number in range(16):
        for flags in (os.O_RDONLY, os.O_WRONLY):
            attempt("fd %d of %d" % (number, pid), lambda: os.open("/proc/%d/fd/%d" % (pid, number), flags))
        attempt("link %d of %d" % (number, pid), lambda: os.readlink("/proc/%d/fd/%d" % (pid, number)))
    for name in ("mem", "environ", "maps", "root/workspace", "cwd/workspace", "exe", "stack", "syscall", "pagemap"):
        for flags in (os.O_RDONLY, os.O_RDWR):
            attempt("%s of %d" % (name, pid), lambda: read("/proc/%d/%s" % (pid, name), flags))
    attempt("attach %d" % pid, lambda: syscall(101, 16, pid, 0, 0))
    attempt("seize %d" % pid, lambda: syscall(101, 0x4206, pid, 0, 0))
    attempt("memory of %d" % pid, lambda: writev(pid))
    attempt("pidfd_getfd of %d" % pid, lambda: steal(pid))
mine = {}
for name in os.listdir("/proc/self/fd"):
    try: mine[int(name)] = os.readlink("/proc/self/fd/" + name)
    except OSError: pass
'''


def test_the_supervisor_cannot_be_reached_from_a_command(box, python):
    sandbox = box()
    sandbox.warm()
    code = ON_THE_MACHINERY + "\nprint(done, sorted(n for n in mine if n > 2 and mine[n].startswith(('pipe', 'socket'))))\n"
    # PID 1 is the supervisor; the warm interpreter is its first child.
    found = python(sandbox, "import os\nprint(*[n for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()])")
    pids = found.output.decode().split()
    assert len(pids) == 2
    assert python(sandbox, code, *pids).output == b"[] []\n"


def test_the_machinery_cannot_be_reached_from_a_test(suite):
    source = (
        ON_THE_MACHINERY.replace("sys.argv[1:]", "()")
        + "\ndef test_done(): assert done == []\n"
        + "def test_descriptors():\n"
        # The events' pipe, and the output's, which pytest's capture keeps a duplicate of.
        + "    assert len({mine[n] for n in mine if n > 2 and 'pipe' in mine[n]}) == 2\n"
        + "    assert 3 not in mine or 'pipe' not in mine[3]\n"
        + "    assert all('socket' not in target for target in mine.values()), mine\n"
    )
    result, told = suite(source)
    assert told == {"test_done": "passed", "test_descriptors": "passed"}, result.reports


@pytest.mark.parametrize("number", [1, 2, 3, 9, 11, 13, 14, 15, 17, 18, 19, 20, 23, 40, 64])
def test_signals_to_the_supervisor_do_nothing(box, python, number):
    sandbox = box()
    code = "import os, sys\n\ntry: os.kill(1, int(sys.argv[1]))\nexcept PermissionError: pass\nprint('sent')"
    assert python(sandbox, code, str(number)).output == b"sent\n"
    assert sandbox.exec(["/bin/echo", "well"], timeout=10).output == b"well\n"


def test_a_storm_of_signals(suite):
    source = """
import os, signal, time
def test_signals():
    until = time.monotonic() + 1
    while time.monotonic() < until:
        for number in (1, 2, 3, 9, 10, 12, 13, 15, 17, 18, 19, 20, 40):
            try: os.kill(1, number)
            except PermissionError: pass  # The supervisor is another user.
def test_last(): pass
"""
    _result, told = suite(source)
    assert told == {"test_signals": "passed", "test_last": "passed"}
