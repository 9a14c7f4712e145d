"""Machine code in memory, and its functions as functions of Python.

llvmlite loads object code and links it to the functions of Python and of the C library that it calls. Each of its own
becomes a built-in function of Python that takes numbers and numpy arrays, checks them against the stated types and
shapes, and runs without the interpreter's lock.
"""

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from servonode.kernels.contents import ADAPTER, ENTRY, NUMBERS, Argument, Contents, Entry, type_text
from servonode.kernels.ir import MATH

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # numpy's flags of an array
_FASTCALL = 0x80  # calling convention in a PyMethodDef
_RESULTS = {"": 0, "f64": 1, "i64": 2, "bool": 3}
_KINDS = {"f64": 0, "i64": 1, "bool": 2}
_ARRAYS = {"f64": 3, "i64": 4}
_DTYPES = {"f64": np.dtype(np.float64), "i64": np.dtype(np.int64)}


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_numbers = itertools.count()  # of libraries, whose names may not be used again
_kept: list[Any] = []  # libraries, which own code, and objects whose addresses code holds


class Kernel:
    """A kernel: its functions and sizes as attributes, its text, and the key by which others import from it."""

    def __init__(self, name: str, text: str, code: bytes, contents: Contents) -> None:
        _check_arrays()
        self.__name__, self.text = name, text
        symbols = [ADAPTER, *(ENTRY + each.name for each in contents.entries), *([NUMBERS] if contents.numbers else [])]
        library = _loaded(code, symbols)
        _kept.append(library)
        if contents.numbers:
            filled = (ctypes.c_double * len(contents.numbers))(*contents.numbers)
            ctypes.memmove(library[NUMBERS], filled, ctypes.sizeof(filled))
        adapter, self._entries = library[ADAPTER], {each.name: each for each in contents.entries}
        for size, value in contents.constants.items():
            setattr(self, size, value)
        for each in contents.entries:
            setattr(self, each.name, _function(adapter, library[ENTRY + each.name], each))

    def arguments(self, function: str, rows: int = 0, /, **given: Any) -> dict[str, Any]:
        """The arguments of a function by name, in its order; numbers and arrays (with so many rows) not given are 0.

        Raises:
            TypeError: the function has no such argument.
        """
        wanted = self._entries[function].arguments
        unknown = given.keys() - {each.name for each in wanted}
        if unknown:
            raise TypeError(f"kernel function {function} has no argument {', '.join(sorted(unknown))}")
        return {each.name: given[each.name] if each.name in given else _zero(each, rows) for each in wanted}


def _loaded(code: bytes, symbols: Iterable[str]) -> Any:
    """The library of object code, which owns it and gives the addresses of these symbols.

    The sections of an object reach each other by offsets of 32 bits: JITLink lays them side by side.
    """
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in _mathematics().items():
        builder.import_symbol(name, address)
    for each in symbols:
        builder.export_symbol(each)
    return builder.link(_linker(), f"kernel {next(_numbers)}")


@functools.cache
def _linker() -> Any:
    """What links object code of this processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(), use_jit_link=True)


@functools.cache
def _mathematics() -> dict[str, int]:
    """The functions of libm by address: this library's, whatever else the process has loaded."""
    found = {}
    with contextlib.suppress(OSError):  # elsewhere they are in the C library
        library = ctypes.CDLL("libm.so.6")
        for name in (*MATH, "pow", "exp2"):
            with contextlib.suppress(AttributeError):
                found[name] = ctypes.cast(library[name], ctypes.c_void_p).value or 0
    return found


@functools.cache
def _check_arrays() -> None:
    """Refuse a numpy whose arrays have another layout than the adapter reads."""
    array = np.zeros((2, 3))
    words = (ctypes.c_int64 * 9).from_address(id(array))
    found = (words[1], words[2], words[3] & 0xFFFFFFFF, words[7], words[8] & 0x501)
    if found != (id(np.ndarray), array.ctypes.data, 2, id(_DTYPES["f64"]), 0x501):
        raise RuntimeError(f"numpy {np.__version__} has arrays of another layout than 1.x and 2.x; take one of those")


def _zero(argument: Argument, rows: int) -> Any:
    """A new array of zeros, or the number 0."""
    if argument.shape is None:
        return {"f64": 0.0, "i64": 0, "bool": False}[argument.type]
    return np.zeros([rows if n < 0 else n for n in argument.shape], _DTYPES[argument.type])


def _function(adapter: int, address: int, entry: Entry) -> Callable[..., Any]:
    """A Python function that calls an entry."""
    explain = _explainer(entry, lambda *given: function(*given))
    words = [address, len(entry.arguments), _RESULTS[entry.result], id(explain), id(np.ndarray)]
    words += [id(_DTYPES["f64"]), id(_DTYPES["i64"])]
    for each in entry.arguments:
        words += _words(each)
    table = (ctypes.c_int64 * len(words))(*words)
    method = _Method(entry.name.encode(), adapter, _FASTCALL, str(entry).encode())
    function: Callable[..., Any] = _new_function(ctypes.addressof(method), ctypes.addressof(table), None)
    _kept.append((explain, table, method))
    return function


def _words(argument: Argument) -> list[int]:
    """The words that describe an argument to the adapter."""
    if argument.shape is None:
        return [_KINDS[argument.type], 0, 0, 0, 0, 0]
    flags = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if argument.written else 0)
    lengths = [*argument.shape, 0, 0, 0][:3]
    return [_ARRAYS[argument.type], flags, len(argument.shape), *lengths]


def _explainer(entry: Entry, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function to be called with arguments that do not fit: it raises TypeError, with the argument and the reason.

    The adapter compares dtypes by address. An array from a pickle has an equal dtype at another address: with such
    arrays the call is repeated.
    """

    def explain(*given: Any) -> Any:
        wanted = entry.arguments
        if len(given) != len(wanted):
            raise TypeError(f"kernel {entry} was given {len(given)} arguments instead of {len(wanted)}")
        known = [_known(each, value) for each, value in zip(wanted, given, strict=True)]
        if any(a is not b for a, b in zip(known, given, strict=True)):
            return function(*known)
        for each, value in zip(wanted, given, strict=True):
            problem = _problem(each, value)
            if problem:
                raise TypeError(f"kernel {entry.name} wants {each.name} as a {type_text(each)}, not {problem}")
        raise TypeError(f"kernel {entry} was given what does not fit")

    return explain


def _known(wanted: Argument, value: Any) -> Any:
    """A view of an array with the dtype object that the adapter knows; anything else unchanged."""
    if wanted.shape is None or type(value) is not np.ndarray:
        return value
    dtype = _DTYPES[wanted.type]
    return value.view(dtype) if value.dtype == dtype and value.dtype is not dtype else value


def _problem(wanted: Argument, value: Any) -> str:
    if wanted.shape is None:
        return ""
    if type(value) is not np.ndarray:
        return f"a {type(value).__name__}"
    fits = len(value.shape) == len(wanted.shape)
    fits = fits and all(n < 0 or n == m for n, m in zip(wanted.shape, value.shape, strict=False))
    if value.dtype is not _DTYPES[wanted.type] or not fits:
        return f"an array of {value.dtype} with shape {value.shape}"
    if not (value.flags.c_contiguous and value.flags.aligned):
        return "an array whose entries do not lie one behind the other"
    return "an array that may not be written" if wanted.written and not value.flags.writeable else ""
