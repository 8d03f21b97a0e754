"""The one product of the kernel: a strided micro-kernel that keeps a tile of sums in registers.

Every sum of products in the solver has the form

    out[i, j] = sum_k a[i, k] * b[k, j]        (or += with ``add``)

for some strides. ``out`` holds rows. ``a`` and ``b`` hold such rows too, or single numbers, which
the micro-kernel repeats in all lanes. A tile of ``height`` by ``width`` sums is computed at a
time: as many as the processor can keep under way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from transop.inference._simd import (
    inlined,
    is_long,
    load_row,
    multiply_add,
    repeat,
    store_row,
)

WORD = ir.IntType(64)


class Strided(NamedTuple):
    """A matrix inside a workspace array: where it starts, and how far apart its entries are.

    All three numbers count rows, or single numbers if the array holds such.
    """

    array: Any
    start: int
    across: int  # from one i to the next (of ``a`` and ``out``), or one j to the next (of ``b``)
    along: int  # from one k to the next; for ``out`` from one j to the next


def _operand(builder: Any, kind: Any, data: Any, rows: Any) -> Callable[..., Any]:
    """Return a function that generates the load of an entry, as a row."""
    repeated = getattr(kind, "lanes", 1) < rows.lanes
    size = ir.Constant(WORD, 1 if repeated else rows.lanes)

    def fetch(index: Any) -> Any:
        pointer = builder.gep(data, [builder.mul(index, size)], inbounds=True)
        if repeated:
            return repeat(builder, builder.load(pointer), rows)
        return load_row(builder, pointer, rows)

    return fetch


def _sum_products(
    builder: Any, n: Any, first: list[Any], step: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """Generate ``for k in range(n): sums = step(k, sums)`` with the sums in registers."""
    before = builder.block
    head, body = builder.append_basic_block("head"), builder.append_basic_block("body")
    end = builder.append_basic_block("end")
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(WORD)
    sums = [builder.phi(value.type) for value in first]
    builder.cbranch(builder.icmp_signed("<", k, n), body, end)
    builder.position_at_end(body)
    new = step(k, sums)
    following = builder.add(k, ir.Constant(WORD, 1))
    for phi, start, value in zip(
        [k, *sums], [ir.Constant(WORD, 0), *first], [following, *new], strict=True
    ):
        phi.add_incoming(start, before)
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(end)
    return sums


def _make_tile(height: int, width: int) -> Any:
    """Make the compiled function that computes one tile of ``height`` by ``width`` sums.

    Its arguments are the fields of the three :class:`Strided`: ``o, oi, oj`` for the result,
    ``p, pi, pk`` for ``a`` and ``q, qj, qk`` for ``b``; ``n`` is the number of products per sum.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, o, oi, oj, a, p, pi, pk, b, q, qj, qk, n, add = args
        rows = signature.args[0]
        fetch_a = _operand(builder, signature.args[4], a, rows)
        fetch_b = _operand(builder, signature.args[8], b, rows)

        def shifted(start: Any, count: int, stride: Any) -> Any:
            return builder.add(start, builder.mul(ir.Constant(WORD, count), stride))

        lanes = ir.Constant(WORD, rows.lanes)
        indices = [shifted(shifted(o, i, oi), j, oj) for i in range(height) for j in range(width)]
        places = [builder.gep(out, [builder.mul(at, lanes)], inbounds=True) for at in indices]
        a_starts = [shifted(p, i, pi) for i in range(height)]
        b_starts = [shifted(q, j, qj) for j in range(width)]

        def step(k: Any, sums: list[Any]) -> list[Any]:
            a_moved, b_moved = builder.mul(k, pk), builder.mul(k, qk)
            columns = [fetch_b(builder.add(start, b_moved)) for start in b_starts]
            entries = (fetch_a(builder.add(start, a_moved)) for start in a_starts)
            factors = ((entry, column) for entry in entries for column in columns)
            return [
                multiply_add(builder, entry, column, total)
                for (entry, column), total in zip(factors, sums, strict=True)
            ]

        first = _load_or_zero(builder, places, add, rows)
        for place, total in zip(places, _sum_products(builder, n, first, step), strict=True):
            store_row(builder, place, total, rows)
        return context.get_dummy_value()

    def tile(
        _: Any,
        out: Any,
        o: Any,
        oi: Any,
        oj: Any,
        a: Any,
        p: Any,
        pi: Any,
        pk: Any,
        b: Any,
        q: Any,
        qj: Any,
        qk: Any,
        n: Any,
        add: Any,
    ) -> Any:
        numbers = (types.intp,) * 3
        typed = types.void(out, *numbers, a, *numbers, b, *numbers, types.intp, types.boolean)
        return typed, generate

    return intrinsic(tile)


def _load_or_zero(builder: Any, places: list[Any], add: Any, rows: Any) -> list[Any]:
    """Generate the first value of every sum: what is stored there if ``add``, else zero."""
    with builder.if_else(add) as (adding, starting):
        with adding:
            stored = [load_row(builder, place, rows) for place in places]
            after_loading = builder.block
        with starting:
            without_loading = builder.block
    first = []
    for value in stored:
        phi = builder.phi(value.type)
        phi.add_incoming(value, after_loading)
        phi.add_incoming(ir.Constant(value.type, None), without_loading)
        first.append(phi)
    return first


_tile_4x2 = _make_tile(4, 2)
_tile_1x1 = _make_tile(1, 1)
_tile_12x1 = _make_tile(12, 1)
_tile_8x1 = _make_tile(8, 1)
_tile_4x1 = _make_tile(4, 1)


@inlined
def multiply_vector(out: Strided, a: Strided, b: Strided, height: int, n: int, add: bool) -> None:
    """Write out[i] = sum over k < n of a[i, k] * b[k] for i < height.

    Twelve or eight sums at a time keep the processor busy; a lone four does not, unless it is of
    long rows. The height must be a multiple of four, except that of long rows.
    """
    oi, pi, pk, qk = out.across, a.across, a.along, b.along
    i = 0
    while i < height:
        left = height - i
        o, p = out.start + i * oi, a.start + i * pi
        if is_long(out.array) and left < 4:
            _tile_1x1(out.array, o, oi, 0, a.array, p, pi, pk, b.array, b.start, 0, qk, n, add)
            i += 1
        elif is_long(out.array) or left == 4:
            _tile_4x1(out.array, o, oi, 0, a.array, p, pi, pk, b.array, b.start, 0, qk, n, add)
            i += 4
        elif left >= 12 and left % 8 == 4:
            _tile_12x1(out.array, o, oi, 0, a.array, p, pi, pk, b.array, b.start, 0, qk, n, add)
            i += 12
        else:
            _tile_8x1(out.array, o, oi, 0, a.array, p, pi, pk, b.array, b.start, 0, qk, n, add)
            i += 8


@inlined
def multiply_matrix(
    out: Strided, a: Strided, b: Strided, height: int, width: int, n: int, add: bool
) -> None:
    """Write out[i, j] = sum over k < n of a[i, k] * b[k, j].

    ``height`` (of i) must be a multiple of four.
    """
    oi, oj, pi, pk, qj, qk = out.across, out.along, a.across, a.along, b.across, b.along
    for j in range(0, width, 2):
        for i in range(0, height, 4):
            o, p, q = out.start + i * oi + j * oj, a.start + i * pi, b.start + j * qj
            if j + 1 < width:
                _tile_4x2(out.array, o, oi, oj, a.array, p, pi, pk, b.array, q, qj, qk, n, add)
            else:
                _tile_4x1(out.array, o, oi, oj, a.array, p, pi, pk, b.array, q, qj, qk, n, add)
