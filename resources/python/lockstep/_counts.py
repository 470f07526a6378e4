"""How many collectives this process has begun in each group, in a file that the worker can read at any time: also
while the process hangs in one. All ranks of a group begin the same ones, so a rank with fewer is behind.
"""
import mmap
import os
import struct

import lockstep

_ENTRY = struct.Struct("<QQQ36s36s")  # of a group: begun, their place among all, whether the last goes on; its name
_INSIDE = struct.Struct("<Q")
_PROCESS = struct.Struct("<Q")  # the file begins with it; after the groups it is NCCL's (counts_file.h)
_GROUPS = 64

_file = None  # False: there is none
_groups = {}  # by name
_all = 0


class _Group:
    def __init__(self, name):
        self.at = _PROCESS.size + len(_groups) * _ENTRY.size
        self.name, self.begun = name.encode(), 0


def _open():
    """Returns the file of this process's rank; False: another process that runs counts there, or there is none."""
    try:
        fd = os.open(lockstep._path + ".counts", os.O_RDWR | os.O_CLOEXEC)
        try:
            file = mmap.mmap(fd, _PROCESS.size + _GROUPS * _ENTRY.size)
        finally:
            os.close(fd)
        other = _PROCESS.unpack_from(file)[0]
        if other not in (0, os.getpid()) and os.path.exists("/proc/{}".format(other)):
            return False
        file[:] = bytes(len(file))
        _PROCESS.pack_into(file, 0, os.getpid())
        return file
    except Exception:
        return False


def here():
    """Whether this is the process that counts for its rank."""
    global _file
    if _file is None:
        _file = _open()
    return _file is not False


def begin(name, group, goes_on=1):
    """Counts a collective of a group, both by their names. Returns what end() takes, if it goes on."""
    global _all
    if not (_file or here()) or group is None:
        return None
    found = _groups.get(group)
    if found is None:
        if len(_groups) >= _GROUPS:
            return None
        found = _groups[group] = _Group(group)
    found.begun += 1
    _all += 1
    _ENTRY.pack_into(_file, found.at, found.begun, _all, goes_on, name.encode(), found.name)
    return found


def end(group):
    if group is not None and _file:
        _INSIDE.pack_into(_file, group.at + 2 * _INSIDE.size, 0)


def _forked():
    global _file
    _file = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
