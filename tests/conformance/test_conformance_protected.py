"""What is protected keeps its content and its name, whatever a test does to it or to a folder above it."""



from __future__ import annotations

import pytest

from taskforge.model import Entry, Tree

FILES = {
    "tests/test_a.py": b"the real test",
    "tests/deep/data.txt": b"data",
    "conftest.py": b"the real conftest",
    "pkg/inner/tests/test_b.py": b"the real inner test",
    "pkg/inner/other.py": b"free",
    "pkg/setup.cfg": b"the real setup",
    "elsewhere": Entry(b"tests", "link"),
}
PROTECTED = ("tests/", "conftest.py", "pkg/inner/tests/", "pkg/setup.cfg", "absent/", "absent.py")
HELD = ("tests", "tests/test_a.py", "tests/deep", "tests/deep/data.txt", "conftest.py", "pkg", "pkg/inner",
        "pkg/inner/tests", "pkg/inner/tests/test_b.py", "pkg/setup.cfg")  # fmt: skip

ATTACKS = '''
import ctypes, os, shutil, sys
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/workspace/mine/sub"); open("/workspace/mine/f", "w").write("evil")
def mount(p, flags=4096):
    if libc.mount(b"/workspace/mine", os.fsencode(p), b"none", flags, None): raise OSError(ctypes.get_errno(), "mount")
def umount(p):
    if libc.umount2(os.fsencode(p), 2): raise OSError(ctypes.get_errno(), "umount")
def exchange(p):
    if libc.renameat2(-100, os.fsencode(p), -100, b"/workspace/mine/sub" if os.path.isdir(p) else b"/workspace/mine/f", 2):
        raise OSError(ctypes.get_errno(), "renameat2")
def own_namespace(p):
    if libc.unshare(0x10000000 | 0x20000): raise OSError(ctypes.get_errno(), "unshare")
    mount(p)
attacks = dict(
    append=lambda p: open(p, "a").write("evil"), truncate=lambda p: os.truncate(p, 0),
    chmod=lambda p: (os.chmod(p, 0o777), open(p, "w").write("evil")), unlink=os.unlink, rmdir=os.rmdir,
    rmtree=shutil.rmtree, rename=lambda p: os.rename(p, p + ".away"), away=lambda p: os.rename(p, "/workspace/away"),
    out=lambda p: os.rename(p, "/tmp/away"), over=lambda p: os.replace("/workspace/mine/f", p),
    folder_over=lambda p: os.rename("/workspace/mine/sub", p), link=lambda p: os.link(p, "/workspace/mine/hard"),
    symlink=lambda p: os.symlink("/workspace/mine", p), create=lambda p: open(p + "/new_in_protected.py", "w").write("x"),
    utime=lambda p: os.utime(p, (0, 0)), exchange=exchange, mount=mount, remount=lambda p: mount(p, 32), umount=umount,
    own_namespace=own_namespace, proc_root=lambda p: open("/proc/self/root" + p, "w").write("evil"),
    truncating=lambda p: os.open(p, os.O_RDONLY | os.O_TRUNC),
)
free = ("pkg", "pkg/inner")
for name in sys.argv[1:]:
    for kind, attack in attacks.items():
        if name in free and kind in ("create", "utime", "chmod", "rmtree"):
            continue  # A folder above is not itself protected.
        if kind == "rmdir" and not os.path.isdir(name): continue
        if os.fork() == 0:
            try: attack("/workspace/" + name)
            except (OSError, shutil.Error): os._exit(0)
            print("DONE", kind, name, flush=True); os._exit(0)
        os.wait()
for name in ("pkg", "pkg/inner"):
    if os.fork() == 0:
        shutil.rmtree(name, ignore_errors=True); os._exit(0)
    os.wait()
os.unlink("/workspace/elsewhere"); os.symlink("mine", "/workspace/elsewhere")
print("over")
'''


def test_no_attack_succeeds(box, python):
    sandbox = box(FILES, protected=PROTECTED)
    said = python(sandbox, ATTACKS, *HELD)
    assert said.output.decode() == "over\n"
    after = sandbox.read("/workspace")
    for name, data in FILES.items():
        if name in HELD:
            assert after[name].data == data
    assert "tests/new_in_protected.py" not in after


@pytest.mark.parametrize("name", ["pkg/inner/other.py", "pkg/new.py", "free/new.py", "pkg/inner/new/x.py"])
def test_what_is_beside_it_stays_free(box, python, name):
    sandbox = box(FILES, protected=PROTECTED)
    code = "import os, sys\np = sys.argv[1]\nos.makedirs(os.path.dirname(p), exist_ok=True)\nopen(p, 'w').write('mine')\n"
    assert python(sandbox, code, name).returncode == 0
    sandbox.lay({name + ".2": Entry(b"laid")})
    after = sandbox.read("/workspace")
    assert (after[name].data, after[name + ".2"].data) == (b"mine", b"laid")


def test_protection_changes_nothing_of_the_tree(box):
    tree = Tree({path: entry if isinstance(entry, Entry) else Entry(entry) for path, entry in FILES.items()})
    assert box(FILES, protected=PROTECTED).read("/workspace") == tree
