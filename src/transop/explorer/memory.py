"""Freed memory goes back to the system."""

import ctypes
import platform

# Names of glibc's malloc.h: M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD.
_SETTINGS = {-8: 2, -3: 2**20, -1: 2**22}


def return_freed_memory() -> None:
    """Ask glibc not to keep freed memory for every thread; other systems are left alone.

    By default each thread that has once decoded a path keeps what it needed, and a server with
    many visitors grows for minutes. Call it before there are threads, in a process of one's own.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    for name, value in _SETTINGS.items():
        libc.mallopt(name, value)
