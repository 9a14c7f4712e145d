"""Images in memory, and their functions as functions of Python.

An image is mapped, its outside addresses filled in, and then made executable and read-only. Each of its functions
becomes a built-in function of Python that takes numbers and numpy arrays, checks them against the stated types and
shapes, and runs without the interpreter's lock.
"""

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from servonode.kernels.elf import Image
from servonode.kernels.ir import BOOL, F64, I64, Array, Local, Scalar, Signature, Type

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # numpy's flags of an array
_FASTCALL = 0x80
_WORDS, _WORDS_OF_ARGUMENT = 7, 6
_RESULTS: dict[Type | None, int] = {None: 0, F64: 1, I64: 2, BOOL: 3}
_KINDS: dict[Type, int] = {F64: 0, I64: 1, BOOL: 2}
_ARRAYS = {F64: 3, I64: 4}
_DTYPES = {F64: np.dtype(np.float64), I64: np.dtype(np.int64)}
MOST_ARGUMENTS = 63


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_kept: list[Any] = []  # what machine code has addresses of


@functools.cache
def _libm() -> Any:
    return ctypes.CDLL("libm.so.6")


def _address(name: str) -> int:
    """The address of a function of Python or the C library.

    Raises:
        AttributeError: there is none of this name.
    """
    for library in (_libm, lambda: _libc):
        try:
            return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def mapped(image: Image, others: Mapping[str, int]) -> int:
    """The address at which the image now stands, executable, for as long as the process lives.

    `others` are the addresses of functions of other images, by the names under which this one calls them.
    """
    size = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
    code = bytearray(image.code)
    for name, offset in image.outside.items():
        address = others[name] if name in others else _address(name)
        code[offset : offset + 8] = address.to_bytes(8, sys.byteorder)
    place = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for a kernel")
    ctypes.memmove(place, bytes(code), len(code))
    if _libc.mprotect(place, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory of this system cannot be made executable")
    return int(place)


def check_arrays() -> None:
    """Refuse a numpy whose arrays do not lie in memory as the adapter reads them."""
    array = np.zeros((2, 3))
    words = (ctypes.c_int64 * 9).from_address(id(array))
    lengths = (ctypes.c_int64 * 2).from_address(words[4]) if words[4] else ()
    found = (words[1], words[2], words[3] & 0xFFFFFFFF, tuple(lengths), words[7])
    if found != (id(np.ndarray), array.ctypes.data, 2, (2, 3), id(_DTYPES[F64])):
        raise RuntimeError(f"numpy {np.__version__} has arrays of another layout than 1.x and 2.x; take one of those")


def python_function(adapter: int, entry: int, signature: Signature, written: frozenset[str]) -> Callable[..., Any]:
    """A function of Python that calls the entry at an address, which writes to the arrays named `written`."""
    arguments = signature.arguments
    if len(arguments) > MOST_ARGUMENTS:
        raise ValueError(f"kernel {signature.name} has {len(arguments)} arguments; at most {MOST_ARGUMENTS} are possible")
    explain = _explainer(signature, written)
    words = [entry, len(arguments), _RESULTS[signature.result], id(explain), id(np.ndarray)]
    words += [id(_DTYPES[F64]), id(_DTYPES[I64])]
    for each in arguments:
        words += _described(each, each.name in written)
    table = (ctypes.c_int64 * len(words))(*words)
    method = _Method(signature.name.encode(), adapter, _FASTCALL, _text(signature).encode())
    function: Callable[..., Any] = _new_function(ctypes.addressof(method), ctypes.addressof(table), None)
    _kept.append((explain, table, method))
    return function


def _described(argument: Local, written: bool) -> list[int]:
    kind = argument.type
    if isinstance(kind, Scalar):
        return [_KINDS[kind], 0, 0, 0, 0, 0]
    lengths = [-1 if n is None else n for n in kind.shape]
    flags = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if written else 0)
    return [_ARRAYS[kind.element], flags, len(lengths), *lengths, *[0] * (3 - len(lengths))]


def _text(signature: Signature) -> str:
    given = ", ".join(f"{each.name}: {_type_text(each.type)}" for each in signature.arguments)
    return f"{signature.name}({given})" + (f" -> {_type_text(signature.result)}" if signature.result else "")


def _type_text(kind: Type) -> str:
    return kind.value if isinstance(kind, Scalar) else str(kind)


def _explainer(signature: Signature, written: frozenset[str]) -> Callable[..., None]:
    """What is called with arguments that do not fit: it says which one, and why."""

    def explain(*given: Any) -> None:
        wanted = signature.arguments
        if len(given) != len(wanted):
            raise TypeError(f"kernel {_text(signature)} was given {len(given)} arguments instead of {len(wanted)}")
        for each, value in zip(wanted, given, strict=True):
            if isinstance(each.type, Array):
                problem = _problem(each.type, value, each.name in written)
                if problem:
                    text = f"kernel {signature.name} wants {each.name} as a contiguous {each.type}, not {problem}"
                    raise TypeError(text)
        raise TypeError(f"kernel {_text(signature)} was given what does not fit")

    return explain


def _problem(kind: Array, value: Any, written: bool) -> str:
    if type(value) is not np.ndarray:
        return f"a {type(value).__name__}"
    fits = len(value.shape) == len(kind.shape)
    fits = fits and all(n is None or n == m for n, m in zip(kind.shape, value.shape, strict=False))
    if value.dtype is not _DTYPES[kind.element] or not fits:
        return f"an array of {value.dtype} with shape {value.shape}"
    if not (value.flags.c_contiguous and value.flags.aligned):
        return "an array whose entries do not lie one behind the other"
    return "an array that may not be written" if written and not value.flags.writeable else ""
