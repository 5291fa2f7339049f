"""Archives: every tree comes back, the same tree is the same bytes, and nothing else is taken for one."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from taskforge.corpus import pack, unpack
from taskforge.errors import CorpusError
from taskforge.model import Entry, Tree

names = st.binary(min_size=1, max_size=120).map(lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_")))
paths = st.lists(
    names.filter(lambda name: name not in {".", ".."} and name.lower() != ".git"), min_size=1, max_size=3
).map("/".join)
contents = st.one_of(
    st.builds(Entry, st.binary(max_size=2000), st.sampled_from(["file", "exec"])),
    st.builds(Entry, st.binary(min_size=1, max_size=150).map(lambda raw: raw.replace(b"\0", b"x")), st.just("link")),
)


def trees(entries: dict[str, Entry]) -> Tree:
    """Without files that would be folders of other files."""
    return Tree({p: e for p, e in entries.items() if not any(other.startswith(p + "/") for other in entries)})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(paths, contents, max_size=8).map(trees))
def test_every_tree_comes_back(tree: Tree) -> None:
    data = pack(tree)
    assert unpack(data) == tree
    assert unpack(data).digest == tree.digest
    assert pack(dict(reversed(list(tree.items())))) == data


def test_long_names_and_targets_and_large_files_come_back() -> None:
    tree = Tree(
        {
            "d/" * 80 + "\udcff" * 200: Entry(b"x", "exec"),
            "link": Entry(b"t/" * 200, "link"),
            "large": Entry(os.urandom(3_000_000)),
            "empty": Entry(b""),
        }
    )
    assert unpack(pack(tree)) == tree


SAMPLE = Tree({"a": Entry(os.urandom(3000)), "b/c": Entry(b"text\n" * 50, "exec"), "l": Entry(b"a", "link")})


@pytest.mark.parametrize("share", [0, 0.001, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_cut_archive_is_damaged(share: float) -> None:
    data = pack(SAMPLE)
    with pytest.raises(CorpusError, match=r"damaged|does not say how large"):
        unpack(data[: int(share * len(data))])


def test_no_changed_byte_gives_another_tree() -> None:
    data = pack(SAMPLE)
    for place in range(0, len(data), max(1, len(data) // 250)):
        wrong = bytearray(data)
        wrong[place] ^= 0x41
        try:
            found = unpack(bytes(wrong))
        except CorpusError:
            continue
        assert found == SAMPLE


def test_what_follows_the_archive_is_damage() -> None:
    with pytest.raises(CorpusError, match="damaged"):
        unpack(pack(SAMPLE) + b"more")


def tar(*members: tarfile.TarInfo, content: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("../x")], "not a normal relative path"),
        ([member("a/../../x")], "not a normal relative path"),
        ([member("/etc/passwd")], "not a normal relative path"),
        ([member(".git/config")], "inside .git"),
        ([member("null", tarfile.CHRTYPE)], "'null', which is no regular file"),
        ([member("disk", tarfile.BLKTYPE)], "'disk', which is no regular file"),
        ([member("pipe", tarfile.FIFOTYPE)], "'pipe', which is no regular file"),
        ([member("a"), member("b", tarfile.LNKTYPE, "a")], "'b', which is no regular file"),
        ([member("a"), member("a")], "'a' twice"),
        ([member("a", tarfile.SYMTYPE, "/etc"), member("a/b")], "'a' both as a file and as the folder"),
    ],
)
def test_a_hostile_member_is_refused(members: list[tarfile.TarInfo], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        unpack(zstandard.compress(tar(*members)))


def test_folders_are_passed_over() -> None:
    raw = tar(member("d", tarfile.DIRTYPE), member("d/a"), content=b"x")
    assert unpack(zstandard.compress(raw)) == Tree({"d/a": Entry(b"x")})


def test_a_huge_archive_is_refused_by_its_header() -> None:
    with pytest.raises(CorpusError, match="more than 2,147,483,648 bytes"):
        unpack(b"\x28\xb5\x2f\xfd\xe0" + (1 << 50).to_bytes(8, "little") + b"\x01\x00\x00")


def test_more_than_allowed_is_refused() -> None:
    bomb = pack({"zeros": Entry(bytes(20_000_000))})
    assert len(bomb) < 10_000
    with pytest.raises(CorpusError, match="more than 1,000,000 bytes"):
        unpack(bomb, max_bytes=1_000_000)
    assert len(unpack(bomb, max_bytes=20_000_000)["zeros"].data) == 20_000_000


def sizeless(data: bytes) -> bytes:
    maker = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return maker.compress(data) + maker.flush()


@pytest.mark.parametrize(
    "make", [sizeless, lambda data: zstandard.compress(data[:700]), lambda data: zstandard.compress(b"x" * 512 + data)]
)
def test_another_kind_of_archive_is_refused(make: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorpusError):
        unpack(make(tar(member("a"), content=b"x" * 400)))
