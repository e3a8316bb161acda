"""Confine this process for good before code that is not ours runs in it: no files but its own
folder and Python's, no sockets, no signals to others, no capabilities.

By the kernel (Landlock and seccomp), so it holds for everything the code starts, and for root. A
machine that cannot do it does not run such code.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import site
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tallyman.errors import CannotConfine

OLDEST = 6
"""The version of Landlock that keeps signals inside: Linux 6.12."""
# The same numbers on all machines.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, IO_URING = 444, 445, 446, 425
PATH_BENEATH, VERSION = 1, 1
NO_NEW_PRIVILEGES, SECCOMP, BY_FILTER = 38, 22, 2
# The numbers of a machine: its name for seccomp, then socket and capset.
MACHINES = {"x86_64": (0xC000003E, 41, 126), "aarch64": (0xC00000B7, 198, 91)}
FOREIGN = 0x40000000
"""System calls from here on are those of x32, which would be another way in."""
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << bit for bit in range(4))
TRUNCATE, DEVICE = 1 << 14, 1 << 15
ALL_FILES = (1 << 16) - 1
OF_ONE_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE
READ = EXECUTE | READ_FILE | READ_DIR
TCP, SCOPES = 0b11, 0b11
READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc/localtime", "/etc/ld.so.cache", "/dev/urandom")
CAPABILITIES = 0x20080522


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def confine(folder: Path) -> None:
    """Confine the only thread of this process, and all it will start, to the folder."""
    reason = why_not()
    if reason is not None:
        raise CannotConfine(reason)
    machine = MACHINES[platform.machine()]
    _check("prctl", _libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _confine_files([(folder, ALL_FILES), *((path, READ) for path in _readable())])
    _drop_capabilities(machine[2])
    _refuse_sockets(machine[0], machine[1])


def why_not() -> str | None:
    """Return why processes cannot be confined on this machine; None if they can."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return f"{sys.platform} on {platform.machine()} has no way to do it"
    found = _call(CREATE_RULESET, None, 0, VERSION)
    if found < 0:
        return "its kernel has no Landlock, or hides it"
    return None if found >= OLDEST else f"Landlock {OLDEST} is needed (Linux 6.12), not {found}"


def _readable() -> Iterator[Path]:
    """Yield what Python needs to run, and what it may import."""
    found = {*READABLE, sys.prefix, sys.base_prefix, *sys.path, *site.getsitepackages()}
    yield from (Path(name).resolve() for name in sorted(found) if name and Path(name).exists())


def _confine_files(rules: Sequence[tuple[Path, int]]) -> None:
    asked = _Ruleset(ALL_FILES, TCP, SCOPES)
    ruleset = _call(CREATE_RULESET, ctypes.byref(asked), ctypes.sizeof(asked), 0)
    _check("landlock_create_ruleset", ruleset)
    for path, allowed in (*rules, (Path(os.devnull), READ_FILE | WRITE_FILE)):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = allowed if path.is_dir() else allowed & OF_ONE_FILE
        rule = _PathBeneath(allowed, descriptor)
        _check(str(path), _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(descriptor)
    _check("landlock_restrict_self", _call(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _drop_capabilities(number: int) -> None:
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    _check("capset", _call(number, ctypes.byref(header), ctypes.byref(nothing)))


def _refuse_sockets(machine: int, socket: int) -> None:
    """Let `socket` fail, of whatever kind: Landlock knows TCP only. So does io_uring, which could
    make one as well."""
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
    steps = (
        (load, 0, 0, 4),  # the machine
        (equal, 1, 0, machine),
        (answer, 0, 0, kill),
        (load, 0, 0, 0),  # the system call
        (at_least, 3, 0, FOREIGN),
        (equal, 2, 0, socket),
        (equal, 1, 0, IO_URING),
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    )
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    program = _Program(len(steps), instructions)
    done = _libc().prctl(SECCOMP, BY_FILTER, ctypes.byref(program), 0, 0)
    _check("seccomp", done)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *given: object) -> int:
    return int(_libc().syscall(number, *given))


def _check(what: str, result: int) -> None:
    if result < 0:
        raise CannotConfine(f"{what}: {os.strerror(ctypes.get_errno())}")
