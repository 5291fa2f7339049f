"""The task bundle on disk: layout, atomic writes, digests, reading and proving."""

from taskforge.corpus.archive import pack, unpack
from taskforge.corpus.atomic import lock, store_fault, write_bytes, write_folder, write_folders
from taskforge.corpus.bundle import PUBLIC_FILES, SEALED_FILES, Bundle
from taskforge.corpus.corpus import Corpus
from taskforge.corpus.locate import locate

__all__ = [
    "PUBLIC_FILES",
    "SEALED_FILES",
    "Bundle",
    "Corpus",
    "locate",
    "lock",
    "pack",
    "store_fault",
    "unpack",
    "write_bytes",
    "write_folder",
    "write_folders",
]
