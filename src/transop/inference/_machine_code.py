"""Machine code that is compiled once per machine, kept on disk, and loaded without the compiler.

The compiler's own disk cache needs the whole compiler imported to load a function, which takes
a second. What it makes is plain machine code, though, and LLVM's loader alone is there in an
instant.
"""

import ctypes
import hashlib
import logging
import os
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from platformdirs import user_cache_path

DIGEST_BYTES = 32

_log = logging.getLogger(__name__)
_engines: list[Any] = []  # an engine owns the memory its functions live in

# The end of a reference-counted array. A kernel that allocates nothing never comes there.
_NEVER_CALLED = "define void @NRT_MemInfo_call_dtor(ptr %0) { ret void }"


class _Turn:
    """Lets one thread at a time compile; a forked child does not inherit who was at it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()


_turn = _Turn()


def load_function(
    compile_it: Callable[[], tuple[str, str]],
    n_arguments: int,
    *,
    name: str,
    sources: tuple[Path, ...],
) -> Callable[..., int]:
    """Load a function from the disk cache, compiling it if it is not there.

    Args:
        compile_it: returns LLVM assembly and the name of the function in it.
        n_arguments: how many addresses it takes.
        name: what to call it in the cache and the log.
        sources: files it is made from; a change in any of them has it compiled anew.
    """
    with _turn.lock:
        machine = _target_machine()
        path = _cache_folder() / f"{name}-{_key(sources)}.o"
        code = _read(path)
        if code is None:
            _log.info("compiling the %s kernel (once per machine and version; about 20 s)", name)
            code = _assemble(machine, *compile_it())
            _write(path, code)
        symbol, _, body = code.partition(b"\n")
        address = _link(machine, body, symbol.decode())
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * n_arguments)(address)


def _target_machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )


def _key(sources: tuple[Path, ...]) -> str:
    """Summarise everything the machine code depends on."""
    digest = hashlib.sha256()
    for path in (*sources, Path(__file__)):
        digest.update(path.read_bytes())
    for part in (
        *(llvm.get_process_triple(), llvm.get_host_cpu_name()),
        *(llvm.get_host_cpu_features().flatten(), version("numba"), version("llvmlite")),
    ):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _cache_folder() -> Path:
    """Choose the folder NUMBA_CACHE_DIR names, else the one beside the code if it is ours."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named)
    beside = Path(__file__).parent / "__pycache__"
    writable = beside if beside.is_dir() else beside.parent
    return beside if os.access(writable, os.W_OK) else user_cache_path("transop") / "kernels"


def _read(path: Path) -> bytes | None:
    """Read a cached file; None if it is missing or not what was once written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Keep compiled code for the next process, if the disk allows."""
    from transop.artifacts import write_atomically  # not needed to load

    try:
        write_atomically(path, hashlib.sha256(code).digest() + code)
    except OSError as problem:
        _log.warning("cannot keep compiled code in %s: %s", path.parent, problem)


def _assemble(machine: Any, assembly: str, symbol: str) -> bytes:
    """Turn LLVM assembly into an object file, with the function's name on its first line."""
    module = llvm.parse_assembly(assembly)
    module.link_in(llvm.parse_assembly(_NEVER_CALLED))
    code: bytes = machine.emit_object(module)
    return symbol.encode() + b"\n" + code


def _link(machine: Any, code: bytes, symbol: str) -> int:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(symbol))
