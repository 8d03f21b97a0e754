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

import inspect
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


def _data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def group_rows(dtype: Any) -> RowsType:
    """Give the kind of rows that hold one number per pair of a group."""
    return RowsType(dtype, REGISTER_BYTES * 8 // dtype.bitwidth)


def single_rows(dtype: Any) -> RowsType:
    """Give the kind of rows that hold one number."""
    return RowsType(dtype, 1)


def _long_lanes(dtype: Any) -> int:
    return LONG_BYTES * 8 // int(dtype.bitwidth)


def _make(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def _make_pointer(kind: Callable[[Any], Any]) -> Any:
    """Make the function that points to a number of an array."""

    def typed(_: Any, array: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.gep(_data_of(context, builder, array, args[0]), [args[1]])

        return kind(array.dtype)(array, types.intp), generate

    return _make(typed)


def make_opener(record: Any, kind: Callable[[Any], Any]) -> Any:
    """Make the function that fills a named tuple from an array of numbers and one of integers.

    Fields annotated as ``int`` take their integer; the others point to that number of the array.
    """
    counts = [annotation is int for annotation in record.__annotations__.values()]

    def typed(_: Any, array: Any, integers: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers = _data_of(context, builder, array, args[0])
            integer = _data_of(context, builder, integers, args[1])
            values = []
            for i, is_count in enumerate(counts):
                value = builder.load(builder.gep(integer, [ir.Constant(ir.IntType(64), i)]))
                values.append(value if is_count else builder.gep(numbers, [value]))
            return context.make_tuple(builder, signature.return_type, values)

        fields = [types.intp if is_count else kind(array.dtype) for is_count in counts]
        opened = types.NamedTuple(fields, record)  # type: ignore[no-untyped-call]
        return opened(array, integers), generate

    return _make(typed)


def _long_rows(_: Any, rows: Any) -> Any:
    lanes = _long_lanes(rows.dtype) if rows.lanes == 1 else rows.lanes
    return RowsType(rows.dtype, lanes)(rows), lambda context, builder, signature, args: args[0]


def _is_long(_: Any, rows: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), rows.lanes == _long_lanes(rows.dtype))

    return types.boolean(rows), generate


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


def _lane_by_lane(compute: Callable[..., Any]) -> Any:
    """Make the function of up to three rows that generates ``compute(builder, *rows)``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return compute(builder, *args)

    def of_one(_: Any, a: Any) -> Any:
        return a(a), generate

    def of_two(_: Any, a: Any, b: Any) -> Any:
        return a(a, b), generate

    def of_three(_: Any, a: Any, b: Any, c: Any) -> Any:
        return a(a, b, c), generate

    n_rows = len(inspect.signature(compute).parameters) - 1
    return _make((of_one, of_two, of_three)[n_rows - 1])


def _size(builder: Any, a: Any) -> Any:
    return builder.call(_llvm_function(builder, "fabs", a.type, 1), [a])


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _where_positive(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), b, c)


def _largest_lane(builder: Any, a: Any) -> Any:
    """Halve the distance between the lanes that are compared until every lane holds the largest."""
    n, index = a.type.count, ir.IntType(32)
    shift = n // 2
    while shift > 0:
        turned = ir.Constant(ir.VectorType(index, n), [(i + shift) % n for i in range(n)])
        a = _larger(builder, a, builder.shuffle_vector(a, a, turned))
        shift //= 2
    return a


single_rows_from = _make_pointer(single_rows)  # (array, first number) -> Rows of one number
numbers_from = _make_pointer(NumbersType)  # (array, first number) -> Numbers
long_rows = _make(_long_rows)  # rows of one number, seen as rows of LONG_BYTES; others unchanged
is_long = _make(_is_long)  # (rows) -> whether they have LONG_BYTES
_get_number = _make(_get)
_set_number = _make(_set)
load = _make(_load)  # (rows, index) -> the row with that index
store = _make(_store)  # (rows, index, row)
splat = _make(_splat)  # (array, value) -> a value in every lane, in the array's precision
number = _make(_number)  # (array, value) -> a number in the array's precision
fma = _lane_by_lane(multiply_add)  # (a, b, c) -> a * b + c, rounded once
size_of = _lane_by_lane(_size)  # (a) -> |a|
larger = _lane_by_lane(_larger)  # the second argument where either is NaN
smaller = _lane_by_lane(_smaller)  # the second argument where either is NaN
where_positive = _lane_by_lane(_where_positive)  # (a, b, c) -> b where a > 0, else c
largest_lane = _lane_by_lane(_largest_lane)  # (a) -> its largest number in every lane
any_above = _make(_any_above)  # (a, b) -> whether a > b in some lane
take_ticket = _make(_take_ticket)  # (counter) -> its value before adding one, atomically


def _teach(symbol: Callable[..., Any], instruction: str) -> None:
    """Let compiled code write ``row <symbol> row``."""
    compute = _lane_by_lane(lambda builder, a, b: getattr(builder, instruction)(a, b))

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
    lanes = getattr(memory, "lanes", 1)

    def get_lane(memory: Any, index: Any) -> Any:
        return _get_number(memory, index[0] * lanes + index[1])

    def get(memory: Any, index: Any) -> Any:
        return _get_number(memory, index)

    if isinstance(memory, RowsType):
        return get_lane
    return get if isinstance(memory, NumbersType) else None


@overload(operator.setitem)
def _setitem(memory: Any, index: Any, value: Any) -> Any:
    lanes = getattr(memory, "lanes", 1)

    def set_lane(memory: Any, index: Any, value: Any) -> Any:
        _set_number(memory, index[0] * lanes + index[1], value)

    def put(memory: Any, index: Any, value: Any) -> Any:
        _set_number(memory, index, value)

    if isinstance(memory, RowsType):
        return set_lane
    return put if isinstance(memory, NumbersType) else None
