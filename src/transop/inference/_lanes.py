"""Explicit vector arithmetic inside compiled kernels: one register holds one number of many pairs.

A *row* is ``lane_count`` neighbouring numbers of a flat array, one per pair (lane). The functions
below load, combine and store whole rows. They fix the vector shape themselves, because loops over
a latent dimension of ten are too short for the compiler to vectorise well on its own.

Nothing here relaxes floating-point rules: infinities and NaNs stay visible to comparisons.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from transop.inference._rooms import REGISTER_BYTES

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Mark a function for compilation; only compiled code may call it."""
    return cast(Function, njit(**_OPTIONS, **_WITHOUT_WRAPPERS)(function))


def compiled_for(signature: Any) -> Any:
    """Make a decorator that compiles a function at once, for arguments of these types."""
    return njit([signature], **_OPTIONS, **_WITHOUT_WRAPPERS)


def embedded(function: Function) -> Function:
    """Mark a small function for compilation without the cost of a call, about 20 cycles."""
    return cast(Function, njit(**_OPTIONS, **_WITHOUT_WRAPPERS, forceinline=True)(function))


def spliced(function: Function) -> Function:
    """Mark a function for being copied into its compiled caller.

    The compiler optimises and stores a called function again inside every function above it.
    Splicing the upper storeys into one keeps compile time from growing with their number.
    """
    return cast(Function, njit(**_OPTIONS, inline="always")(function))


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def lanes_of(dtype: Any) -> int:
    """Count the numbers of a type that share one register."""
    return int(REGISTER_BYTES * 8 // dtype.bitwidth)


class Lanes(types.Type):
    """The compiled type of one row."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


class _LanesModel(models.PrimitiveModel):
    """Keeps a row in one LLVM vector."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = ir.FloatType() if lanes.dtype == types.float32 else ir.DoubleType()
        vector = ir.VectorType(element, lanes_of(lanes.dtype))
        super().__init__(manager, lanes, vector)  # type: ignore[no-untyped-call]


register_model(Lanes)(_LanesModel)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _repeat(builder: Any, scalar: Any, vector_type: Any) -> Any:
    nowhere = ir.Constant(vector_type, ir.Undefined)
    index = ir.IntType(32)
    first = builder.insert_element(nowhere, scalar, ir.Constant(index, 0))
    mask = ir.Constant(ir.VectorType(index, vector_type.count), [0] * vector_type.count)
    return builder.shuffle_vector(first, nowhere, mask)


def _load(_: Any, array: Any, index: Any) -> Any:
    typed = Lanes(array.dtype)(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        vector_type = context.get_value_type(signature.return_type)
        row = builder.bitcast(pointer, vector_type.as_pointer())
        return builder.load(row, align=array.dtype.bitwidth // 8)

    return typed, generate


def _store(_: Any, array: Any, index: Any, row: Any) -> Any:
    typed = types.void(array, types.intp, row)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        place = builder.bitcast(pointer, args[2].type.as_pointer())
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return typed, generate


def _spread(_: Any, array: Any, index: Any) -> Any:
    typed = Lanes(array.dtype)(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        vector_type = context.get_value_type(signature.return_type)
        return _repeat(builder, builder.load(pointer), vector_type)

    return typed, generate


def _splat(_: Any, array: Any, value: Any) -> Any:
    typed = Lanes(array.dtype)(array, types.float64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar = context.cast(builder, args[1], types.float64, array.dtype)
        return _repeat(builder, scalar, context.get_value_type(signature.return_type))

    return typed, generate


def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector_type = args[0].type
        suffix = "f32" if a.dtype == types.float32 else "f64"
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(vector_type, [vector_type] * 3),
            f"llvm.fma.v{vector_type.count}{suffix}",
        )
        return builder.call(function, args)

    return a(a, b, c), generate


def _choice(comparison: str) -> Any:
    def typed(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *args), *args)

        return a(a, b), generate

    return _intrinsic(typed)


def _where_positive(_: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        positive = builder.fcmp_ordered(">", args[0], ir.Constant(args[0].type, None))
        return builder.select(positive, args[1], args[2])

    return a(a, b, c), generate


def _any_above(_: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        above = builder.fcmp_ordered(">", *args)
        bits = builder.bitcast(above, ir.IntType(args[0].type.count))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(a, b), generate


def _lane_count(_: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.intp, lanes_of(array.dtype))

    return types.intp(array), generate


def _take_ticket(_: Any, counter: Any) -> Any:
    typed = types.int64(counter)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(ir.IntType(64), 0)
        pointer = _pointer(context, builder, signature.args[0], args[0], zero)
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "monotonic")

    return typed, generate


load = _intrinsic(_load)  # (array, index) -> row starting there
store = _intrinsic(_store)  # (array, index, row)
spread = _intrinsic(_spread)  # (array, index) -> one stored number in every lane
splat = _intrinsic(_splat)  # (array, value) -> a value in every lane, in the array's precision
fma = _intrinsic(_fma)  # (a, b, c) -> a * b + c, rounded once
larger = _choice(">")  # lane-wise; the second argument where either is NaN
smaller = _choice("<")  # lane-wise; the second argument where either is NaN
where_positive = _intrinsic(_where_positive)  # (a, b, c) -> b where a > 0, else c
any_above = _intrinsic(_any_above)  # (a, b) -> whether a > b in some lane
lane_count = _intrinsic(_lane_count)  # (array) -> lanes per row
take_ticket = _intrinsic(_take_ticket)  # (counter) -> its value before adding one, atomically


class _LaneWise(AbstractTemplate):
    """Types ``row <operator> row`` as a row."""

    def generic(self, args: Any, keywords: Any) -> Any:
        """Accept two rows of one precision and nothing else."""
        if len(args) == 2 and isinstance(args[0], Lanes) and args[0] == args[1]:
            return signature(args[0], *args)  # type: ignore[no-untyped-call]
        return None


def _teach_operator(symbol: Callable[..., Any], instruction: str) -> None:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    template = type(f"_{instruction}", (_LaneWise,), {})
    infer_global(symbol)(template)  # type: ignore[no-untyped-call]
    lower_builtin(symbol, Lanes, Lanes)(generate)  # type: ignore[no-untyped-call]


_teach_operator(operator.add, "fadd")
_teach_operator(operator.sub, "fsub")
_teach_operator(operator.mul, "fmul")
_teach_operator(operator.truediv, "fdiv")


@embedded
def store_four(array: Any, at: int, step: int, a: Any, b: Any, c: Any, d: Any) -> None:
    """Store four rows, ``step`` numbers apart."""
    store(array, at, a)
    store(array, at + step, b)
    store(array, at + 2 * step, c)
    store(array, at + 3 * step, d)
