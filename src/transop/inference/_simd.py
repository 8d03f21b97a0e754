"""Explicit SIMD arithmetic for compiled code: one register holds one number of several pairs.

A *row* is ``N`` neighbouring numbers, one per pair (lane) of a group; N is eight in single
precision and four in double, or one where a pair is solved by itself. Compiled code sees memory
as two light types, which are plain pointers without reference counts: ``Rows``
(``rows[index, lane]``) and ``Numbers`` (``numbers[index]``, shared by all pairs). The functions
below load, combine and store whole rows. They fix the vector shape themselves, because loops
over a latent dimension of ten are too short for the compiler to vectorise well on its own.

Nothing here relaxes floating-point rules: infinities and NaNs stay visible to comparisons.
Everything uses numba's extension interface: ``intrinsic``, ``overload`` and ``register_model``.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, overload, register_model

REGISTER_BYTES = 32  # AVX2; narrower machines split the register, wider ones half fill it
LONG_BYTES = 64  # one AVX-512 register, or two of AVX2: where latent entries lie side by side

# What annotations call the two kinds of memory; only compiled code has them.
Rows = Any
Numbers = Any

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Mark a function for compilation; only compiled code calls it."""
    return cast(Function, njit(nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Mark a small function for compilation into its caller; a call costs about 20 cycles."""
    return cast(Function, njit(nogil=True, error_model="numpy", forceinline=True)(function))


def fast(function: Function) -> Function:
    """Mark a function whose plain loops the compiler may vectorise: sums in any order."""
    rules = {"contract", "reassoc", "nsz"}
    return cast(Function, njit(nogil=True, error_model="numpy", fastmath=rules)(function))


class Row(types.Type):
    """The compiled type of one row."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Row({dtype}, {lanes})")


def vector_of(kind: Any) -> ir.VectorType:
    """Give the LLVM type of one row."""
    element = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
    return ir.VectorType(element, kind.lanes)


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    """Keeps a row in one LLVM vector."""

    def __init__(self, manager: Any, row: Row) -> None:
        super().__init__(manager, row, vector_of(row))  # type: ignore[no-untyped-call]


class RowsType(types.Type):
    """The compiled type of memory that holds rows."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Rows({dtype}, {lanes})")


class NumbersType(types.Type):
    """The compiled type of memory that holds single numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Numbers({dtype})")


@register_model(RowsType)
@register_model(NumbersType)
class _MemoryModel(models.PrimitiveModel):
    """Keeps a pointer to the first number."""

    def __init__(self, manager: Any, memory: Any) -> None:
        element = manager[memory.dtype].get_data_type()
        super().__init__(manager, memory, element.as_pointer())  # type: ignore[no-untyped-call]


def load_row(builder: Any, pointer: Any, kind: Any) -> Any:
    """Load the row that starts at a number."""
    row = builder.bitcast(pointer, vector_of(kind).as_pointer())
    return builder.load(row, align=kind.dtype.bitwidth // 8)


def store_row(builder: Any, pointer: Any, row: Any, kind: Any) -> None:
    """Store a row from a number onwards."""
    place = builder.bitcast(pointer, row.type.as_pointer())
    builder.store(row, place, align=kind.dtype.bitwidth // 8)


def repeat(builder: Any, scalar: Any, kind: Any) -> Any:
    """Put one number into every lane."""
    vector, index = vector_of(kind), ir.IntType(32)
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(index, 0))
    everywhere = ir.Constant(ir.VectorType(index, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, empty, everywhere)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Compute a * b + c, rounded once."""
    return builder.call(_llvm_function(builder, "fma", a.type, 3), [a, b, c])


def _llvm_function(builder: Any, name: str, vector: ir.VectorType, n_arguments: int) -> Any:
    suffix = f"v{vector.count}f{32 if vector.element == ir.FloatType() else 64}"
    kind = ir.FunctionType(vector, [vector] * n_arguments)
    return builder.module.declare_intrinsic(f"llvm.{name}.{suffix}", (), kind)


def _row_pointer(builder: Any, signature: Any, args: Any) -> Any:
    lanes = ir.Constant(ir.IntType(64), signature.args[0].lanes)
    return builder.gep(args[0], [builder.mul(args[1], lanes)], inbounds=True)


def _array_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _rows_from(_: Any, array: Any, start: Any) -> Any:
    lanes = REGISTER_BYTES * 8 // array.dtype.bitwidth
    return RowsType(array.dtype, lanes)(array, types.intp), _array_pointer


def _single_rows_from(_: Any, array: Any, start: Any) -> Any:
    return RowsType(array.dtype, 1)(array, types.intp), _array_pointer


def _numbers_from(_: Any, array: Any, start: Any) -> Any:
    return NumbersType(array.dtype)(array, types.intp), _array_pointer


def _same_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


def _as_numbers(_: Any, rows: Any) -> Any:
    return NumbersType(rows.dtype)(rows), _same_pointer


def _as_long_rows(_: Any, rows: Any) -> Any:
    return RowsType(rows.dtype, LONG_BYTES * 8 // rows.dtype.bitwidth)(rows), _same_pointer


def _lanes_in(_: Any, rows: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), rows.lanes)

    return types.intp(rows), generate


def _get(_: Any, memory: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(args[0], [args[1]], inbounds=True))

    return memory.dtype(memory, types.intp), generate


def _set(_: Any, memory: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], builder.gep(args[0], [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(memory, types.intp, memory.dtype), generate


def _load(_: Any, array: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return load_row(builder, _row_pointer(builder, signature, args), array)

    return Row(array.dtype, array.lanes)(array, types.intp), generate


def _store(_: Any, array: Any, index: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _row_pointer(builder, signature, args)
        store_row(builder, pointer, args[2], array)
        return context.get_dummy_value()

    return types.void(array, types.intp, row), generate


def _splat(_: Any, array: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar = context.cast(builder, args[1], types.float64, array.dtype)
        return repeat(builder, scalar, array)

    return Row(array.dtype, array.lanes)(array, types.float64), generate


def _number(_: Any, array: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[1], types.float64, array.dtype)

    return array.dtype(array, types.float64), generate


def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return multiply_add(builder, *args)

    return a(a, b, c), generate


def _size_of(_: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(_llvm_function(builder, "fabs", args[0].type, 1), args)

    return a(a), generate


def _choice(comparison: str) -> Any:
    def typed(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *args), *args)

        return a(a, b), generate

    return _make(typed)


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


def _take_ticket(_: Any, counter: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate


def _arithmetic(instruction: str) -> Any:
    def typed(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return a(a, b), generate

    return _make(typed)


def _make(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


rows_from = _make(_rows_from)  # (array, first number) -> Rows
single_rows_from = _make(_single_rows_from)  # the same, with rows of one number
numbers_from = _make(_numbers_from)  # (array, first number) -> Numbers
as_numbers = _make(_as_numbers)  # rows of one number, seen as numbers
as_long_rows = _make(_as_long_rows)  # rows of one number, seen as rows of LONG_BYTES
lanes_in = _make(_lanes_in)  # (rows) -> how many numbers a row has
_get_number = _make(_get)
_set_number = _make(_set)
load = _make(_load)  # (rows, index) -> the row with that index
store = _make(_store)  # (rows, index, row)
splat = _make(_splat)  # (array, value) -> a value in every lane, in the array's precision
number = _make(_number)  # (array, value) -> a number in the array's precision
fma = _make(_fma)  # (a, b, c) -> a * b + c, rounded once
size_of = _make(_size_of)  # (a) -> |a|, lane by lane
larger = _choice(">")  # lane by lane; the second argument where either is NaN
smaller = _choice("<")  # lane by lane; the second argument where either is NaN
where_positive = _make(_where_positive)  # (a, b, c) -> b where a > 0, else c
any_above = _make(_any_above)  # (a, b) -> whether a > b in some lane
take_ticket = _make(_take_ticket)  # (counter) -> its value before adding one, atomically


def _teach(symbol: Callable[..., Any], instruction: str) -> None:
    """Let compiled code write ``row <symbol> row``."""
    compute = _arithmetic(instruction)

    def combine(a: Any, b: Any) -> Any:
        return compute(a, b)

    def typed(a: Any, b: Any) -> Any:
        return combine if isinstance(a, Row) and a == b else None

    overload(symbol)(typed)


_teach(operator.add, "fadd")
_teach(operator.sub, "fsub")
_teach(operator.mul, "fmul")
_teach(operator.truediv, "fdiv")


@overload(operator.getitem)
def _getitem(memory: Any, index: Any) -> Any:
    if isinstance(memory, RowsType):
        lanes = memory.lanes

        def get_lane(memory: Any, index: Any) -> Any:
            return _get_number(memory, index[0] * lanes + index[1])

        return get_lane
    if isinstance(memory, NumbersType):

        def get(memory: Any, index: Any) -> Any:
            return _get_number(memory, index)

        return get
    return None


@overload(operator.setitem)
def _setitem(memory: Any, index: Any, value: Any) -> Any:
    if isinstance(memory, RowsType):
        lanes = memory.lanes

        def set_lane(memory: Any, index: Any, value: Any) -> Any:
            _set_number(memory, index[0] * lanes + index[1], value)

        return set_lane
    if isinstance(memory, NumbersType):

        def put(memory: Any, index: Any, value: Any) -> Any:
            _set_number(memory, index, value)

        return put
    return None
