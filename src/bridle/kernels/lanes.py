"""Sums over short rows in vector code, with the operations and the order of the plain loop.

The compiler makes vector code of a loop in steps of 16 or 32 numbers and leaves the rest to one
number at a time: of a row of 42 a fourth. Here a row is cut into vectors of `LANES` numbers, the
last one masked, and as many as fit stay in registers while rows are added up. Each number is still
the sum of the same products, each rounded, in the same order: no bit depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from bridle.kernels.types import Floats, Singles, Uints

__all__ = [
    "LANES",
    "add_marked",
    "add_products",
    "add_rows",
    "fetch",
    "row_products",
    "settle_products",
    "sum_below",
    "take_outer",
]

LANES = 8
# Vectors that are kept in registers; with what they are made of, all 32 of a modern processor.
AT_ONCE = 8
# The tile of a triangle that is kept there: so many rows of so many vectors.
HIGH, WIDE = 4, 2
# Rows that are multiplied side by side.
ROWS = 8
# Bits of a word of marks, and how many of them go into one vector of single precision.
MARKS, SINGLES = 64, 16

_F, _I = ir.DoubleType(), ir.IntType(64)
_V = ir.VectorType(_F, LANES)
_M = ir.VectorType(ir.IntType(1), LANES)
_N = ir.VectorType(_I, LANES)


class _Code:  # pragma: no cover: runs while kernels compile, once on a machine
    """Writes the instructions of one kernel."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        self.context, self.at = context, builder

    def array(self, kind: Any, value: Any) -> tuple[Any, Any, list[Any]]:
        """Return data, shape and strides in numbers of an array."""
        found = self.context.make_array(kind)(self.context, self.at, value)
        shape = [self.at.extract_value(found.shape, i) for i in range(kind.ndim)]
        strides = [self.at.extract_value(found.strides, i) for i in range(kind.ndim)]
        steps = [self.at.ashr(one, _I(3)) for one in strides]
        return found.data, shape, steps

    def pointer(self, data: Any, place: Any, kind: Any = _F) -> Any:
        """Return where a number of an array is."""
        return self.at.bitcast(self.at.gep(data, [place]), kind.as_pointer())

    def number(self, data: Any, place: Any) -> Any:
        """Read one number."""
        return self.at.load(self.pointer(data, place))

    def spread(self, number: Any, kind: Any = _V) -> Any:
        """Return a vector of one number, again and again."""
        first = self.at.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
        same = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.at.shuffle_vector(first, ir.Constant(kind, ir.Undefined), same)

    def lanes(self) -> Any:
        """Return the numbers of the lanes."""
        return ir.Constant(_N, list(range(LANES)))

    def first(self, count: Any) -> Any:
        """Return a mask of the first `count` lanes."""
        return self.at.icmp_signed("<", self.lanes(), self.spread(count, _N))

    def read(self, data: Any, place: Any, mask: Any = None) -> Any:
        """Read a vector; 0 where the mask is not set."""
        pointer = self.pointer(data, place, _V)
        if mask is None:
            return self.at.load(pointer, align=8)
        return self.at.call(self._masked("load"), [pointer, _word(8), mask, _zeros()])

    def write(self, vector: Any, data: Any, place: Any, mask: Any = None) -> None:
        """Write a vector, where the mask is set."""
        pointer = self.pointer(data, place, _V)
        if mask is None:
            self.at.store(vector, pointer, align=8)
        else:
            self.at.call(self._masked("store"), [vector, pointer, _word(8), mask])

    def _masked(self, what: str) -> Any:
        name = f"llvm.masked.{what}.v{LANES}f64.p0"
        given = [_V.as_pointer(), ir.IntType(32), _M]
        kind = (
            ir.FunctionType(_V, [*given, _V])
            if what == "load"
            else ir.FunctionType(ir.VoidType(), [_V, *given])
        )
        return self.at.module.globals.get(name) or ir.Function(self.at.module, kind, name)

    def times(self, first: Any, until: Any, body: Callable[[Any, list[Any]], list[Any]], *now: Any):  # type: ignore[no-untyped-def]
        """Write a loop of i = first, first + 1, … below `until`; `body` maps i and what it carries.

        Returns what it carries at the end.
        """
        before = self.at.block
        head = self.at.append_basic_block("head")
        inside = self.at.append_basic_block("inside")
        after = self.at.append_basic_block("after")
        self.at.branch(head)
        self.at.position_at_end(head)
        i = self.at.phi(_I)
        i.add_incoming(first, before)
        carried = [self.at.phi(one.type) for one in now]
        for phi, one in zip(carried, now, strict=True):
            phi.add_incoming(one, before)
        self.at.cbranch(self.at.icmp_signed("<", i, until), inside, after)
        self.at.position_at_end(inside)
        new = body(i, carried)
        end = self.at.block
        i.add_incoming(self.at.add(i, _I(1)), end)
        for phi, one in zip(carried, new, strict=True):
            phi.add_incoming(one, end)
        self.at.branch(head)
        self.at.position_at_end(after)
        return carried

    def pieces(self, n: Any, most: int, body: Callable[[Any, Sequence[Any]], None]) -> None:
        """Cut a row of n numbers into pieces of at most so many vectors.

        `body` takes where a piece begins and the masks of its vectors; None is a full one.
        """
        whole = self.at.sdiv(self.at.sub(n, _I(1)), _I(most * LANES))

        def full(i: Any, _: list[Any]) -> list[Any]:
            body(self.at.mul(i, _I(most * LANES)), [None] * most)
            return []

        self.times(_I(0), whole, full)
        start = self.at.mul(whole, _I(most * LANES))
        rest = self.at.sub(n, start)
        vectors = self.at.ashr(self.at.add(rest, _I(LANES - 1)), _I(3))
        done = self.at.append_basic_block("done")
        choice = self.at.switch(vectors, done)
        for v in range(1, most + 1):
            block = self.at.append_basic_block(f"of{v}")
            choice.add_case(_I(v), block)
            self.at.position_at_end(block)
            mask = self.first(self.at.sub(rest, _I(LANES * (v - 1))))
            body(start, [*[None] * (v - 1), mask])
            self.at.branch(done)
        self.at.position_at_end(done)


def _word(value: int) -> Any:  # pragma: no cover
    return ir.Constant(ir.IntType(32), value)


def _zeros() -> Any:  # pragma: no cover
    return ir.Constant(_V, [0.0] * LANES)


def _write_add_rows(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    (y, (n,), _), (a, (R,), (a_step,)), (X, _, (row, _)) = map(code.array, signature.args, args)

    def piece(start: Any, masks: Sequence[Any]) -> None:
        places = [builder.add(start, _I(LANES * v)) for v in range(len(masks))]
        sums = [code.read(y, at, mask) for at, mask in zip(places, masks, strict=True)]

        def add(r: Any, now: list[Any]) -> list[Any]:
            factor = code.spread(code.number(a, builder.mul(r, a_step)))
            base = builder.mul(r, row)
            new = []
            for one, at, mask in zip(now, places, masks, strict=True):
                x = code.read(X, builder.add(base, at), mask)
                new.append(builder.fadd(one, builder.fmul(factor, x)))
            return new

        for one, at, mask in zip(code.times(_I(0), R, add, *sums), places, masks, strict=True):
            code.write(one, y, at, mask)

    code.pieces(n, AT_ONCE, piece)
    return context.get_dummy_value()


def _write_take_outer(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    (A, (R, n), (row, _)), (a, _, (a_step,)), (x, _, _) = map(code.array, signature.args, args)

    def piece(start: Any, masks: Sequence[Any]) -> None:
        places = [builder.add(start, _I(LANES * v)) for v in range(len(masks))]
        given = [code.read(x, at, mask) for at, mask in zip(places, masks, strict=True)]

        def add(r: Any, _: list[Any]) -> list[Any]:
            factor = code.spread(code.number(a, builder.mul(r, a_step)))
            base = builder.mul(r, row)
            for one, at, mask in zip(given, places, masks, strict=True):
                there = builder.add(base, at)
                old = code.read(A, there, mask)
                code.write(builder.fsub(old, builder.fmul(factor, one)), A, there, mask)
            return []

        code.times(_I(0), R, add)

    # A row that is written whole would be waited for by the next one, which begins in its last
    # vector: so short rows go by one vector at a time, all of them, and then the next.
    with builder.if_else(builder.icmp_signed(">", n, _I(4 * LANES))) as (long, short):
        with long:
            code.pieces(n, 4, piece)
        with short:
            code.pieces(n, 1, piece)
    return context.get_dummy_value()


def _write_sum_below(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    (h, _, _), (c, (n,), (c_step,)), (A, _, (row, _)) = map(code.array, signature.args, args)

    def column(b: Any, _: list[Any]) -> list[Any]:
        start = builder.mul(b, _I(LANES))
        mask = code.first(builder.sub(n, start))

        def add(j: Any, now: list[Any]) -> list[Any]:
            x = code.read(A, builder.add(builder.mul(j, row), start), mask)
            factor = code.spread(code.number(c, builder.mul(j, c_step)))
            return [builder.fadd(now[0], builder.fmul(factor, x))]

        sums = code.times(_I(0), start, add, _zeros())
        # The rows of the block on the diagonal: only what is right of it.
        until = builder.add(start, _I(LANES))
        until = builder.select(builder.icmp_signed("<", n, until), n, until)

        def add_right(j: Any, now: list[Any]) -> list[Any]:
            (new,) = add(j, now)
            right = builder.icmp_signed(">", code.lanes(), code.spread(builder.sub(j, start), _N))
            return [builder.select(right, new, now[0])]

        sums = code.times(start, until, add_right, *sums)
        code.write(sums[0], h, start, mask)
        return []

    code.times(_I(0), builder.ashr(builder.add(n, _I(LANES - 1)), _I(3)), column)
    return context.get_dummy_value()


def _add_to_pair(
    code: _Code, high: Any, low: Any, x: Any, at: Any, mask: Any
) -> None:  # pragma: no cover
    """Add a vector to pairs of sums and what rounding dropped: two-sum, as `posterior.add`."""
    do = code.at
    old = code.read(high, at, mask)
    new = do.fadd(old, x)
    part = do.fsub(new, old)
    lost = do.fadd(do.fsub(old, do.fsub(new, part)), do.fsub(x, part))
    code.write(do.fadd(code.read(low, at, mask), lost), low, at, mask)
    code.write(new, high, at, mask)


def _write_products(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    *sums, (X, (R, d), (row, _)) = map(code.array, signature.args, args)
    (high, _, _), *pair = sums

    def block(b: Any, _: list[Any]) -> list[Any]:
        rows = [builder.add(builder.mul(b, _I(HIGH)), _I(i)) for i in range(HIGH)]
        inside = [builder.icmp_signed("<", i, d) for i in rows]
        last = builder.sub(d, _I(1))
        columns = [
            builder.select(ok, i, last) for ok, i in zip(inside, rows, strict=True)
        ]  # beyond the last, something that can be read
        starts = [builder.ashr(builder.mul(i, builder.add(i, _I(1))), _I(1)) for i in rows]

        def tile(t: Any, _: list[Any]) -> list[Any]:
            places = [
                builder.add(builder.mul(t, _I(WIDE * LANES)), _I(LANES * v)) for v in range(WIDE)
            ]
            within = [code.first(builder.sub(d, at)) for at in places]
            where, masks = [], []
            for i, ok, start in zip(rows, inside, starts, strict=True):
                for at in places:
                    count = builder.sub(builder.add(i, _I(1)), at)
                    masks.append(code.first(builder.select(ok, count, _I(0))))
                    where.append(builder.add(start, at))
            now = [_zeros()] * len(where)
            if not pair:
                now = [code.read(high, at, mask) for at, mask in zip(where, masks, strict=True)]

            def add(r: Any, now: list[Any]) -> list[Any]:
                base = builder.mul(r, row)
                x = [
                    code.read(X, builder.add(base, at), mask)
                    for at, mask in zip(places, within, strict=True)
                ]
                factors = [code.spread(code.number(X, builder.add(base, i))) for i in columns]
                terms = [builder.fmul(factor, one) for factor in factors for one in x]
                return [builder.fadd(one, term) for one, term in zip(now, terms, strict=True)]

            done = code.times(_I(0), R, add, *now)
            for one, at, mask in zip(done, where, masks, strict=True):
                if pair:
                    _add_to_pair(code, high, pair[0][0], one, at, mask)
                else:
                    code.write(one, high, at, mask)
            return []

        until = builder.sdiv(rows[-1], _I(WIDE * LANES))
        code.times(_I(0), builder.add(until, _I(1)), tile)
        return []

    code.times(_I(0), builder.sdiv(builder.add(d, _I(HIGH - 1)), _I(HIGH)), block)
    return context.get_dummy_value()


def _write_row_products(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    (out, (R,), _), (X, _, (row, _)), (v, (n,), _) = map(code.array, signature.args, args)
    last = builder.sub(R, _I(1))
    whole = builder.ashr(n, _I(3))
    rest = builder.shl(whole, _I(3))
    mask = code.first(builder.sub(n, rest))

    def block(b: Any, _: list[Any]) -> list[Any]:
        rows = []
        for i in range(ROWS):  # beyond the last, the last again: it is written more than once
            r = builder.add(builder.mul(b, _I(ROWS)), _I(i))
            rows.append(builder.select(builder.icmp_signed("<", r, last), r, last))
        bases = [builder.mul(r, row) for r in rows]

        def add(start: Any, now: list[Any], mask: Any) -> list[Any]:
            x = code.read(v, start, mask)
            terms = [
                builder.fmul(code.read(X, builder.add(base, start), mask), x) for base in bases
            ]
            return [builder.fadd(one, term) for one, term in zip(now, terms, strict=True)]

        def full(j: Any, now: list[Any]) -> list[Any]:
            return add(builder.mul(j, _I(LANES)), now, None)

        sums = add(rest, code.times(_I(0), whole, full, *[_zeros()] * ROWS), mask)
        for r, one in zip(rows, sums, strict=True):
            lane = [builder.extract_element(one, _word(i)) for i in range(LANES)]
            while len(lane) > 1:
                half = len(lane) // 2
                lane = [builder.fadd(lane[i], lane[i + half]) for i in range(half)]
            builder.store(lane[0], code.pointer(out, r))
        return []

    blocks = builder.sdiv(builder.add(R, _I(ROWS - 1)), _I(ROWS))
    code.times(_I(0), blocks, block)
    return context.get_dummy_value()


def _write_add_marked(
    context: Any, builder: Any, signature: Any, args: Any
) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    arrays = [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[:3], args[:3], strict=True)
    ]
    out, w, marks = (array.data for array in arrays)
    width = builder.extract_value(arrays[2].shape, 1)
    tile, begin, end = (
        context.cast(builder, value, kind, types.int64)
        for kind, value in zip(signature.args[3:], args[3:], strict=True)
    )
    one, some = ir.FloatType(), ir.IntType(SINGLES)
    vector, bits = ir.VectorType(one, SINGLES), ir.VectorType(ir.IntType(1), SINGLES)
    places = range(0, MARKS, SINGLES)
    first, row = builder.mul(tile, _I(MARKS)), builder.mul(tile, width)
    pointers = [
        builder.bitcast(builder.gep(out, [builder.add(first, _I(at))]), vector.as_pointer())
        for at in places
    ]
    sums = [builder.load(pointer, align=4) for pointer in pointers]
    blank = ir.Constant(vector, ir.Undefined)
    same = ir.Constant(ir.VectorType(ir.IntType(32), SINGLES), [0] * SINGLES)

    def add(r: Any, now: list[Any]) -> list[Any]:
        number = builder.insert_element(blank, builder.load(builder.gep(w, [r])), _word(0))
        weight = builder.shuffle_vector(number, blank, same)
        word = builder.load(builder.gep(marks, [builder.add(row, r)]))
        new = []
        for sum_, at in zip(now, places, strict=True):
            mask = builder.bitcast(builder.trunc(builder.lshr(word, _I(at)), some), bits)
            new.append(builder.select(mask, builder.fadd(sum_, weight), sum_))
        return new

    for sum_, pointer in zip(code.times(begin, end, add, *sums), pointers, strict=True):
        builder.store(sum_, pointer, align=4)
    return context.get_dummy_value()


def _write_fetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # pragma: no cover
    code = _Code(context, builder)
    data, (_, n), (step, _) = code.array(signature.args[0], args[0])
    row = context.cast(builder, args[1], signature.args[1], types.int64)
    base = builder.mul(row, step)
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    name = "llvm.prefetch.p0"
    prefetch = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)

    def line(i: Any, _: list[Any]) -> list[Any]:
        place = builder.add(base, builder.mul(i, _I(LANES)))
        pointer = builder.bitcast(builder.gep(data, [place]), byte)
        # To read, into the second cache, of data.
        builder.call(prefetch, [pointer, _word(0), _word(2), _word(1)])
        return []

    code.times(_I(0), builder.ashr(builder.add(n, _I(LANES - 1)), _I(3)), line)
    return context.get_dummy_value()


def _compiled(write: Callable[..., Any], plain: Callable[..., None]) -> Any:  # pragma: no cover
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return plain

    def typed_pair(context: Any, one: Any, two: Any) -> Any:
        return types.none(one, two), write

    def typed_three(context: Any, one: Any, two: Any, three: Any) -> Any:
        return types.none(one, two, three), write

    def typed_six(
        context: Any, one: Any, two: Any, three: Any, four: Any, five: Any, six: Any
    ) -> Any:
        return types.none(one, two, three, four, five, six), write

    typed: Any = {2: typed_pair, 3: typed_three, 6: typed_six}[plain.__code__.co_argcount]
    typed.__name__, typed.__doc__ = plain.__name__, plain.__doc__
    typed.__module__, typed.__qualname__ = __name__, plain.__name__
    return intrinsic(typed)


def _add_rows(y: Floats, a: Floats, X: Floats) -> None:
    """Add a[0]·X[0], a[1]·X[1], … to y, one after the other: y (n,), a (R,), X (R, ≥ n)."""
    for r in range(len(a)):
        y += a[r] * X[r, : len(y)]


def _take_outer(A: Floats, a: Floats, x: Floats) -> None:
    """Take a[r]·x from each row r of A."""
    for r in range(len(a)):
        A[r] -= a[r] * x


def _sum_below(h: Floats, c: Floats, A: Floats) -> None:
    """Fill h[i] with Σ c[j]·A[j, i] over j < i, in the order of j; h (≥ d,), c (d,), A (d, d)."""
    d = len(c)
    h[:d] = 0.0
    for j in range(d):
        h[j + 1 : d] += c[j] * A[j, j + 1 :]


def _add_products(sums: Floats, X: Floats) -> None:
    """Add X[r]ᵀX[r] to sums, row after row: sums is the lower triangle (d(d+1)/2,), X (R, d)."""
    for x in X:
        sums += (x[:, None] * x)[np.tril_indices(len(x))]


def _row_products(out: Floats, X: Floats, v: Floats) -> None:
    """Fill out[r] with Σ X[r, i]·v[i]: every eighth term in order, then these sums by halves."""
    for r in range(len(out)):
        sums = np.zeros(LANES)
        for start in range(0, len(v), LANES):
            terms = X[r, start : start + LANES][: len(v) - start] * v[start : start + LANES]
            sums[: len(terms)] += terms
        while len(sums) > 1:
            half = len(sums) // 2
            sums = sums[:half] + sums[half:]
        out[r] = sums[0]


def _add_marked(out: Singles, w: Singles, marks: Uints, tile: int, begin: int, end: int) -> None:
    """Add w[r] to those of 64 numbers whose bit of marks[tile, r] is set: r = begin, …, end − 1.

    out: (64·tiles,), marks: (tiles, R). No slices are taken of arrays: that costs more than this.
    """
    lanes = np.arange(MARKS, dtype=np.uint64)
    mine = out[tile * MARKS : (tile + 1) * MARKS]
    for r in range(begin, end):
        mine[(marks[tile, r] >> lanes) & np.uint64(1) == 1] += w[r]


def _fetch(X: Floats, row: int) -> None:
    """Ask for a row of X that is soon read, which memory would be waited for: changes nothing."""


add_rows = _compiled(_write_add_rows, _add_rows)
row_products = _compiled(_write_row_products, _row_products)
add_marked = _compiled(_write_add_marked, _add_marked)
take_outer = _compiled(_write_take_outer, _take_outer)
fetch = _compiled(_write_fetch, _fetch)


def _settle_products(high: Floats, low: Floats, X: Floats) -> None:
    """Add the sum of X[r]ᵀX[r], row after row, to pairs of sums and what rounding dropped."""
    x = np.zeros(len(high))
    _add_products(x, X)
    new = high + x
    part = new - high
    low += (high - (new - part)) + (x - part)
    high[:] = new


add_products = _compiled(_write_products, _add_products)
settle_products = _compiled(_write_products, _settle_products)
sum_below = _compiled(_write_sum_below, _sum_below)
