"""What the term engine proves, and what it must not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kcheck.canon.term.domain import TermDomain
from tests.canon.term.expressions import Expr, X, Y, Z, build, call, constant, number


def exp2(e: Expr) -> Expr:
    return call("exp2", e)


def lg2(e: Expr) -> Expr:
    return call("lg2", e)


def sqrt(e: Expr | int) -> Expr:
    return call("sqrt", e)


def top(*each: Expr | int) -> Expr:
    first, *rest = each
    for e in rest:
        first = call("maximum", first, e)
    return first if isinstance(first, Expr) else number(first)


def select(op: str, a: Expr, b: Expr | int, yes: Expr | int, no: Expr | int) -> Expr:
    return call("select", call(op, a, b), yes, no)


LOG2E, LN2, PI = constant("log2e"), constant("ln2"), constant("pi")
ROOT = constant("sqrt(2/pi)")


def tanh(e: Expr) -> Expr:
    return call("tanh", e)


def erf(e: Expr) -> Expr:
    return call("erf", e)


def exp(e: Expr) -> Expr:
    return exp2(e * LOG2E)


def log(e: Expr) -> Expr:
    return lg2(e) * LN2


def sigmoid(e: Expr) -> Expr:
    return number(1) / (exp(-e) + 1)


def gelu(e: Expr) -> Expr:
    return e * HALF * (tanh(ROOT * (e + e * e * e * number(Fraction(44715, 10**6)))) + 1)


HALF = number(Fraction(1, 2))
TENTH = number(Fraction(13421773, 2**27))  # 0.1 in f32: three of them pass 64 bits
L = exp2(X) + exp2(Y) + exp2(Z)
CHOSEN = select("gt", X, 0, X + Z, Z)
SIX = [X, Y, Z, X + Y, Y + Z, X * Z]
# more indicators than are told apart in a divisor; where the sum is 0
_SIGNS = [select("gt", e, 0, 1, 0) for e in SIX]
MANY = _SIGNS[0] + _SIGNS[1] + _SIGNS[2] + _SIGNS[3] + _SIGNS[4]
PRODUCT = _SIGNS[0] * _SIGNS[1] * _SIGNS[2] * _SIGNS[3] * _SIGNS[4]
CORNER = (
    (number(1) - _SIGNS[0])
    * (number(1) - _SIGNS[1])
    * (number(1) - _SIGNS[2])
    * (number(1) - _SIGNS[3])
    * (number(1) - _SIGNS[4])
)
NINE = [*SIX, X * Y, Y * Y, Z * Z]

EQUAL = {
    "a difference of squares": ((X + Y) * (X - Y), X * X - Y * Y),
    "a cube": ((X + Y) * (X + Y) * (X + Y), X * X * X + X * X * Y * 3 + X * Y * Y * 3 + Y * Y * Y),
    "literals beyond 64 bits": (X * TENTH * TENTH * TENTH, TENTH * (TENTH * (TENTH * X))),
    "2^(x+1)": (exp2(X + 1), exp2(X) * 2),
    "2^(x/2) squared": (exp2(X * HALF) * exp2(X * HALF), exp2(X)),
    "2^(x+1/2) squared": (exp2(X + HALF) * exp2(X + HALF), exp2(X * 2) * 2),
    "2^x 2^-x": (exp2(X) * exp2(-X), number(1)),
    "nested": (exp2(exp2(X + 1)), exp2(exp2(X) * 2)),
    "sqrt 2 squared": (sqrt(2) * sqrt(2), number(2)),
    "sqrt 8": (sqrt(8), sqrt(2) * 2),
    "sqrt 2 sqrt 3": (sqrt(2) * sqrt(3) * sqrt(2), sqrt(3) * 2),
    "sqrt squared": (sqrt(X * X + 1) * sqrt(X * X + 1), X * X + 1),
    "1/sqrt": (number(1) / sqrt(X * X + 1), sqrt(X * X + 1) / (X * X + 1)),
    "sqrt of a square": (sqrt(X * X), top(X, -X)),
    "sqrt of a square and a constant": (sqrt(X * X * 4 * exp2(Y)), top(X, -X) * 2 * exp2(Y * HALF)),
    "one over the root of a square": (
        Y / sqrt(X * X),
        select("gt", X, 0, Y / X, -Y / X),
    ),
    "sums of quotients": (number(1) / X + number(1) / Y, (X + Y) / (X * Y)),
    "a quotient that divides": ((X * X - Y * Y) / (X + Y), X - Y),
    "parts of one": (X / (X + Y) + Y / (X + Y), number(1)),
    "two divisors": (
        number(1) / (X + Y) - number(1) / (X + Z),
        (Z - Y) / ((X + Y) * (X + Z)),
    ),
    "a divisor of quotients": (number(1) / (number(1) + X / Y), Y / (Y + X)),
    "softmax shifted": (exp2(X) / L, exp2(X - Y) / (exp2(X - Y) + 1 + exp2(Z - Y))),
    "softmax renormalized": (
        (exp2(X) / (exp2(X) + exp2(Y)) * (exp2(X) + exp2(Y)) + exp2(Z)) / L,
        (exp2(X) + exp2(Z)) / L,
    ),
    "a maximum is a set": (top(X, Y, X), top(Y, X)),
    "a maximum of maxima": (top(top(*SIX[:3]), top(*SIX[3:])), top(*reversed(SIX))),
    "a large set scaled": (top(*(e * 3 for e in NINE)), top(*NINE) * 3),
    "a large set shifted": (
        top(*(e + X * Y * 5 + HALF for e in NINE)),
        top(*NINE) + X * Y * 5 + HALF,
    ),
    "a large set shifted by an exponential": (
        top(*(e + exp2(X) * Y for e in NINE)),
        top(*NINE) + exp2(X) * Y,
    ),
    "a large set shifted and scaled": (
        top(*(e * 3 + exp2(X) - Y for e in NINE)),
        top(*NINE) * 3 + exp2(X) - Y,
    ),
    "a large set of multiples, shifted": (
        top(*(X * (k * k) + Y * k + Z for k in range(12))),
        top(*(X * (k * k) + Y * (k - 5) for k in range(12))) + Y * 5 + Z,
    ),
    "a maximum shifted": (top(X + Z, Y + Z), top(X, Y) + Z),
    "a maximum scaled": (top(X * 3, Y * 3), top(X, Y) * 3),
    "a maximum of numbers": (top(X, 1, 3), top(3, X)),
    "x and x + 1": (top(X, X + 1), X + 1),
    "a minimum": (call("minimum", X, Y), X + Y - top(X, Y)),
    "relu(-x) + x": (top(-X, 0) + X, top(X, 0)),
    "softmax less its maximum": (
        exp2(X - top(X, Y, Z)) / (exp2(X - top(X, Y, Z)) + exp2(Y - top(Z, Y, X))),
        exp2(X) / (exp2(X) + exp2(Y)),
    ),
    "online softmax": (
        (exp2(X - top(X, Y)) * exp2(top(X, Y) - top(X, Y, Z)) + exp2(Z - top(X, Y, Z)))
        / (
            (exp2(X - top(X, Y)) + exp2(Y - top(X, Y))) * exp2(top(X, Y) - top(X, Y, Z))
            + exp2(Z - top(X, Y, Z))
        ),
        (exp2(X) + exp2(Z)) / L,
    ),
    "relu by a select": (select("gt", X, 0, X, 0), top(X, 0)),
    "relu by a select, at 0 too": (select("ge", X, 0, X, 0), top(X, 0)),
    "relu, arms exchanged": (select("lt", X, 0, 0, X), top(0, X)),
    "the greater by a select": (select("ge", X, Y, X, Y), top(X, Y)),
    "abs by a select": (select("lt", X, 0, -X, X), top(X, -X)),
    "leaky relu": (select("gt", X, 0, X, X * TENTH), top(X, X * TENTH)),
    "clamp": (call("minimum", top(X, 0), 1), top(call("minimum", X, 1), 0)),
    "a guarded exp2": (
        select("lt", X, -126, exp2(X * HALF) * exp2(X * HALF), exp2(X)),
        exp2(X),
    ),
    "a select is a maximum": (top(Z, select("gt", X, Y, X, Y)), top(X, Y, Z)),
    "the other arm": (top(Z, select("ge", X, Y, X, Y)), top(X, Y, Z)),
    "a select is a minimum": (
        call("minimum", Z, select("lt", X, Y, X, Y)),
        call("minimum", X, call("minimum", Y, Z)),
    ),
    "compared with a select": (
        select("gt", Z, select("gt", Y, X, Y, X), 1, 0),
        select("gt", Z, top(X, Y), 1, 0),
    ),
    "an index beside a maximum": (
        select("gt", Z, select("le", Y, X, X, Y), 2, select("gt", Y, X, 1, 0)),
        select("gt", Z, top(X, Y), 2, select("gt", Y, X, 1, 0)),
    ),
    "a function of a select": (
        exp2(select("lt", X, Y, X, Z)),
        select("lt", X, Y, exp2(X), exp2(Z)),
    ),
    "one over a select": (
        number(1) / select("lt", X, Y, X * X + 1, Z * Z + 1),
        select("lt", X, Y, number(1) / (X * X + 1), number(1) / (Z * Z + 1)),
    ),
    "x where x = y": (select("eq", X, Y, X, Y), Y),
    "2^x where x >= y": (select("ge", X, Y, exp2(X), exp2(Y)), exp2(top(X, Y))),
    "a sigmoid where x >= y": (
        select("ge", X, Y, sigmoid(X), sigmoid(Y)),
        sigmoid(top(X, Y)),
    ),
    "any function where x > y": (
        select("gt", X, Y, call("tanh", X * X + X), call("tanh", Y * Y + Y)),
        call("tanh", top(X, Y) * top(X, Y) + top(X, Y)),
    ),
    "a function of a relu, at 0 too": (
        call("tanh", select("ge", X, 0, X, 0) + Y),
        call("tanh", top(X, 0) + Y),
    ),
    "what is guarded is divided": (
        select("eq", X, Y, 5, (X - Y) * Z / (X - Y)),
        select("eq", X, Y, 5, Z),
    ),
    "a guard against 0": (
        select("eq", L - 1, 0, 0, X / (L - 1)),
        X * select("ne", exp2(X) + exp2(Y) + exp2(Z), 1, number(1) / (L - 1), 0),
    ),
    "ties of relus": (
        select("ge", X, 0, X, 0) * Y + select("ge", Y, 0, Y, 0) * Z + select("ge", Z, 0, Z, 0),
        top(X, 0) * Y + top(Y, 0) * Z + top(Z, 0),
    ),
    "argmax from either end, ties to the first": (
        select("gt", Z, top(X, Y), 2, select("gt", Y, X, 1, 0)),
        select("ge", X, top(Y, Z), 0, select("ge", Y, Z, 1, 2)),
    ),
    "what can't be": (
        select("lt", X, 0, select("gt", X, 1, Y, Z), Z),
        Z,
    ),
    "compares that follow from others": (
        select("gt", X, Y, select("gt", Y, Z, select("gt", X, Z, 1, 5), 0), 0),
        select("gt", X, Y, select("gt", Y, Z, 1, 0), 0),
    ),
    "ties beside a divisor": (
        select("ge", X, 0, X, 0) / (Y - Z) + select("ge", Y, 0, Y, 0),
        top(X, 0) / (Y - Z) + top(Y, 0),
    ),
    "an argument of quotients": (
        call("tanh", X / (X + Y) - Y / (X + Y)),
        call("tanh", (X - Y) / (X + Y)),
    ),
    "arguments of arguments": (
        sqrt(exp2(number(1) / X + number(1) / Y) + Z * Z),
        sqrt(exp2((X + Y) / (X * Y)) + Z * Z),
    ),
    "an exponent of quotients": (
        exp2(X / (X + Y)) * exp2(-Y / (X + Y)) * Z,
        Z * exp2((X - Y) / (X + Y)),
    ),
    "a maximum of quotients": (
        top(X / (X + Y) - Y / (X + Y), Z),
        top((X - Y) / (X + Y), Z),
    ),
    "a compare of quotients": (
        select("gt", X / (X + Y) - Y / (X + Y), 0, X, Z),
        select("gt", (X - Y) / (X + Y), 0, X, Z),
    ),
    "compare scaled": (select("lt", X * 2, Y * 2, X, Z), select("gt", Y, X, X, Z)),
    "compare an exponential": (select("gt", exp2(X), 0, X, Z), X),
    "not less": (select("ge", X, Y, X, Z), select("lt", X, Y, Z, X)),
    "lg2 of a product": (lg2(exp2(X) * exp2(Y)), X + Y),
    "lg2(2^x)": (lg2(exp2(X)), X),
    "2^(lg2)": (exp2(lg2(X * X + 1)), X * X + 1),
    "a power": (exp2(lg2(X * X + 1) * 2), (X * X + 1) * (X * X + 1)),
    "half a power": (exp2(lg2(X * X + 1) * HALF), sqrt(X * X + 1)),
    "three halves": (exp2(lg2(X * X + 1) * HALF * 3), sqrt(X * X + 1) * (X * X + 1)),
    "one over a root": (exp2(lg2(X * X + 1) * -HALF), number(1) / sqrt(X * X + 1)),
    "log-sum-exp": (lg2(exp2(X) + exp2(Y)), lg2(exp2(X - Y) + 1) + Y),
    "lg2 of a number": (lg2(number(12)), lg2(number(3)) + 2),
    "log2 e ln 2": (X * LOG2E * LN2, X),
    "log2 e in another place": (exp2(X * LOG2E * Y), exp2(X * (Y * LOG2E))),
    "sqrt(2/pi) squared": (ROOT * ROOT * PI, number(2)),
    "sqrt 2, 2^(1/2)": (constant("sqrt2"), exp2(HALF)),
    "sqrt 6": (sqrt(X * X * 6 + 6), sqrt(X * X + 1) * constant("sqrt2") * constant("sqrt3/2") * 2),
    "an exponent with a constant twice": (exp2(X * LOG2E) * exp2(Y * LOG2E), exp2((X + Y) * LOG2E)),
    "exponents of two kinds": (exp2(X * LOG2E + Y) * exp2(X * LN2), exp2(X * (LOG2E + LN2) + Y)),
    "e^(x+1)": (exp2((X + 1) * LOG2E), exp2(X * LOG2E) * exp2(LOG2E)),
    "nested with a constant": (exp2(exp2(X + 1) * PI), exp2(exp2(X) * PI) * exp2(exp2(X) * PI)),
    "log(e^x)": (lg2(exp2(X * LOG2E)) * LN2, X),
    "a logarithm of pi": (lg2(exp2(X) * PI), X + lg2(PI)),
    "pi by its logarithm": (exp2(lg2(PI) * 2) * X, X * PI * PI),
    "a maximum scaled by a constant": (top(X * LOG2E, Y * LOG2E), top(X, Y) * LOG2E),
    "a maximum of scaled maxima": (top(top(X, Y) * LOG2E, Z), top(X * LOG2E, Z, Y * LOG2E)),
    "a maximum scaled by an exponential": (top(X * exp2(Z), Y * exp2(Z)), top(X, Y) * exp2(Z)),
    "softmax by e^x": (
        exp2((X - top(X, Y)) * LOG2E)
        / (exp2((X - top(Y, X)) * LOG2E) + exp2((Y - top(X, Y)) * LOG2E)),
        exp2(X * LOG2E) / (exp2(X * LOG2E) + exp2(Y * LOG2E)),
    ),
    "compare scaled by a constant": (select("lt", X * PI, Y * PI, X, Z), select("gt", Y, X, X, Z)),
    "a constant is positive": (select("gt", exp2(X) * LN2, 0, X, Y), X),
    "one over scaled sums": (number(1) / ((X + Y) * LOG2E), LN2 / (Y + X)),
    "tanh": (tanh(X), (exp(X) - exp(-X)) / (exp(X) + exp(-X))),
    "tanh by e^2x": (tanh(X), number(1) - number(2) / (exp(X * 2) + 1)),
    "tanh is odd": (tanh(Y - X), -tanh(X - Y)),
    "tanh(0)": (tanh(X - X), number(0)),
    "tanh(ln 2)": (tanh(LN2), number(Fraction(3, 5))),
    "tanh of a sum": (tanh(X + Y), (tanh(X) + tanh(Y)) / (tanh(X) * tanh(Y) + 1)),
    "the slope of tanh": (
        number(1) - tanh(X) * tanh(X),
        number(4) / ((exp(X) + exp(-X)) * (exp(-X) + exp(X))),
    ),
    "sigmoid": (sigmoid(X), tanh(X * HALF) * HALF + HALF),
    "sigmoid by e^x": (sigmoid(X), exp(X) / (exp(X) + 1)),
    "sigmoid(-x)": (sigmoid(-X), number(1) - sigmoid(X)),
    "sigmoid without overflow": (
        select("ge", X, 0, number(1) / (exp(-X) + 1), exp(X) / (exp(X) + 1)),
        sigmoid(X),
    ),
    "silu": (X / (exp(-X) + 1), X * HALF * (tanh(X * HALF) + 1)),
    "silu of a sum, in a square root": (
        sqrt((X + Y) * (X + Y) * sigmoid(X + Y) * sigmoid(X + Y)),
        sqrt((X + Y) * (X + Y) * sigmoid(Y + X) * (tanh((X + Y) * HALF) * HALF + HALF)),
    ),
    "softplus": (
        log(exp(X) + 1),
        top(X, 0) + log(exp(-top(X, -X)) + 1),
    ),
    "softplus with a threshold at 0": (
        log(exp(X) + 1),
        select("gt", X, 0, X + log(exp(-X) + 1), log(exp(X) + 1)),
    ),
    "log sigmoid": (log(sigmoid(X)), -log(exp(-X) + 1)),
    "mish": (
        X * tanh(log(exp(X) + 1)),
        X * (exp(X) * exp(X) + exp(X) * 2) / (exp(X) * exp(X) + exp(X) * 2 + 2),
    ),
    "gelu by sigmoid": (
        gelu(X),
        X * sigmoid(ROOT * (X * 2 + X * X * X * number(Fraction(8943, 10**5)))),
    ),
    "erf is odd": (erf(Y - X), -erf(X - Y)),
    "gelu by erfc": (
        X * HALF * (erf(X * constant("sqrt2") * HALF) + 1),
        X * HALF * (number(1) - erf(-X / constant("sqrt2"))),
    ),
    "one over sums of constants": (
        number(1) / (X * constant("sqrt2") + X) + Y,
        Y + constant("sqrt2") / (X * 2 + X * constant("sqrt2")),
    ),
}

DIFFERENT = {
    "a quarter of a power": (exp2(lg2(X * X + 1) * HALF * HALF), sqrt(X * X + 1)),
    "half of a root": (exp2(lg2(X * X + 1) * HALF), number(1) / sqrt(X * X + 1)),
    "a sign": ((X + Y) * (X - Y), X * X + Y * Y),
    "2^(x^2), 2^(x^3)": (exp2(X * X), exp2(X * X * X)),
    "2^(x+1), 3 2^x": (exp2(X + 1), exp2(X) * 3),
    "sqrt 2, 1.4142135": (sqrt(2), number(Fraction(14142135, 10**7))),
    "sqrt(x^2), x": (sqrt(X * X), X),
    "sqrt(x^4), x": (sqrt(X * X * X * X), X),
    "sqrt(x^2 y), |x| y": (sqrt(X * X * Y), top(X, -X) * Y),
    "literals in the last place": (X * TENTH, X * number(Fraction(13421772, 2**27))),
    "max, min": (top(X, Y), call("minimum", X, Y)),
    "a large set shifted in part": (top(*(e + Z for e in NINE[1:]), X), top(*NINE) + Z),
    "a large set shifted, less the shift": (top(*(e + HALF for e in NINE)), top(*NINE)),
    "max(-x, -y)": (top(-X, -Y), -top(X, Y)),
    "a maximum scaled by -1": (top(X * -3, Y * -3), top(X, Y) * -3),
    "one key less": (exp2(X) / L, exp2(X) / (exp2(X) + exp2(Y))),
    "a select is no maximum": (top(Z, select("lt", X, Y, X, Y)), top(X, Y, Z)),
    "a select of others": (top(Z, select("gt", X, Y, X, Y * 2)), top(X, Y * 2, Z)),
    "relu, abs": (top(X, 0), top(X, -X)),
    "less, less or equal": (select("lt", X, Y, 1, 0), select("le", X, Y, 1, 0)),
    "compare scaled by -1": (select("lt", X * -1, Y * -1, X, Z), select("lt", X, Y, X, Z)),
    "lg2 of a sum": (lg2(exp2(X) + exp2(Y)), X + Y),
    "sqrt of a square by lg2": (exp2(lg2(X * X) * HALF), X),
    "factors of positive products": (
        exp2((lg2(X * Y) + lg2(X * Z)) * HALF),
        X * exp2(lg2(Y * Z) * HALF),
    ),
    "a guarded quotient, multiplied again": (
        select("eq", X, 0, 5, number(1) / X * X * Y),
        Y + select("eq", X, 0, 5, 0),
    ),
    "a quotient guarded by a tie": (
        select("eq", X, Y, 5, (X - Y) * Z / (X - Y)),
        Z + select("eq", X, Y, 5, 0),
    ),
    "quotients guarded by a tie": (
        select("eq", X, Y, 5, (X / (X - Y) - Y / (X - Y)) * Z),
        Z + select("eq", X, Y, 5, 0),
    ),
    "a guard against 0 that is missing": (select("eq", L - 1, 0, 0, X / (L - 1)), X / (L - 1)),
    "a power guarded by 0": (
        select("eq", X, 0, 5, exp2(-lg2(X)) * X * Y),
        Y + select("eq", X, 0, 5, 0),
    ),
    "many indicators in a divisor": (
        select("gt", X, 0, Y * MANY / MANY, 5),
        select("gt", X, 0, Y, 5) + CORNER * Z,
    ),
    "another argument of quotients": (
        call("tanh", X / (X + Y) + Y / (X + Z)),
        call("tanh", (X + Y) / (X + Y)),
    ),
    "another exponent of quotients": (
        exp2(X / (X + Y)) * exp2(Y / (X + Y)),
        exp2(X / (X + Y) + Z / (X + Y)),
    ),
    "argmax, ties to the last": (
        select("gt", Z, top(X, Y), 2, select("gt", Y, X, 1, 0)),
        select("gt", X, top(Y, Z), 0, select("ge", Y, Z, 1, 2)),
    ),
    "what can be": (
        select("gt", X, 0, select("lt", X, 1, Y, Z), Z),
        Z,
    ),
    "many factors of a divisor": (
        select("gt", X, 0, PRODUCT * (Y / PRODUCT), 5),
        Y + select("gt", X, 0, 0, 5),
    ),
    "2^x where x < y": (select("lt", X, Y, exp2(X), exp2(Y)), exp2(top(X, Y))),
    "ties that matter": (select("ge", X, Y, exp2(X), exp2(Y + 1)), exp2(top(X, Y + 1))),
    "a select of a product that is divided by": (
        CHOSEN * (Y + Z) + number(1) / CHOSEN,
        select("gt", X, 0, CHOSEN * (Y + Z), 0) + number(1) / CHOSEN,
    ),
    "log2 e, ln 2": (X * LOG2E, X * LN2),
    "log2 e, its literal": (exp2(X * LOG2E), exp2(X * number(Fraction(12102203, 2**23)))),
    "e^x, 2^x": (exp2(X * LOG2E), exp2(X)),
    "tanh(2x), 2 tanh x": (tanh(X * 2), tanh(X) * 2),
    "tanh(x), tanh(-x)": (tanh(X), tanh(-X)),
    "sigmoid by tanh without the half": (sigmoid(X), tanh(X) * HALF + HALF),
    "sigmoid of -x": (sigmoid(X), sigmoid(-X)),
    "softplus with another sign": (log(exp(X) + 1), top(X, 0) + log(exp(top(X, -X)) + 1)),
    "softplus by a maximum with -x": (log(exp(X) + 1), top(-X, 0) + log(exp(-top(X, -X)) + 1)),
    "gelu with another cube": (
        gelu(X),
        X * sigmoid(ROOT * (X * 2 + X * X * X * number(Fraction(44715, 10**6)))),
    ),
    "gelu, its quick form": (gelu(X), X * sigmoid(X * number(Fraction(1702, 1000)))),
    "gelu erf, gelu tanh": (X * HALF * (erf(X * constant("sqrt2") * HALF) + 1), gelu(X)),
    "erf(x), erfc(x)": (erf(X), number(1) - erf(X)),
    "constants in exponents": (exp2(X * LOG2E) * exp2(X * PI), exp2(X * LOG2E * PI)),
    "a maximum scaled by -pi": (top(X * PI * -1, Y * PI * -1), top(X, Y) * PI * -1),
    "a maximum of two scales": (top(X * LOG2E, Y), top(X, Y) * LOG2E),
    "online without rescaling": (
        (exp2(X - top(X, Y)) + exp2(Z - top(X, Y, Z))) / exp2(-top(X, Y, Z)),
        exp2(X) + exp2(Z),
    ),
}


# |x| + x is 0 for all negative x, and |x| - x times it is 0 for all x
SIZE = sqrt(X * X)
OVER_SIZE = SIZE / (SIZE + X) + X / (SIZE + X)
# more conditions than are told apart in an argument
STEPS = sum((select("gt", Y + k, 0, X, 0) for k in range(2, 6)), select("gt", Y + 1, 0, X, 0))
ONCE = Z * (X / (X + Y) + Y / (X + Y))
UNDIVIDED = {
    "a factor that a divisor takes to 0": (
        select("gt", Y, 0, OVER_SIZE, SIZE - X),
        select("gt", Y, 0, 1, 0),
    ),
    "a product of roots, the root of a product": (
        select(
            "gt",
            Z,
            0,
            sqrt(X) * sqrt(Y) / (sqrt(X) * sqrt(Y) - sqrt(X * Y))
            - sqrt(X * Y) / (sqrt(X) * sqrt(Y) - sqrt(X * Y)),
            sqrt(X) * sqrt(Y) + sqrt(X * Y),
        ),
        select("gt", Z, 0, 1, 0),
    ),
    **{
        f"{name} of what a divisor takes to one": (
            select("gt", Y, 0, f(Z * OVER_SIZE), f(Z)),
            select("gt", Y, 0, f(Z), f(Z + SIZE - X)),
        )
        for name, f in (("erf", erf), ("exp2", exp2))
    },
    "exponentials that are one by a third": (
        select("gt", X * Z, 1, exp2(ONCE + STEPS), exp2(Z + STEPS)),
        select("gt", X * Z, 1, exp2(Z + STEPS), exp2(select("eq", X + Y, 0, 0, Z) + STEPS)),
    ),
}


def proved(pair: tuple[Expr, Expr]) -> bool:
    """By graphs that share nothing, and by one that shares what it can."""
    domain = TermDomain()
    apart = bool(domain.equal(*(build(e, domain) for e in pair)).all())
    domain, made = TermDomain(), dict[Expr, Any]()
    shared = bool(domain.equal(*(build(e, domain, made) for e in pair)).all())
    assert apart == shared
    return shared


@pytest.mark.parametrize("law", EQUAL)
def test_law(law: str) -> None:
    assert proved(EQUAL[law])


@pytest.mark.parametrize("pair", DIFFERENT)
def test_what_differs_is_not_proved(pair: str) -> None:
    assert not proved(DIFFERENT[pair])


@pytest.mark.parametrize("pair", UNDIVIDED)
def test_what_an_arm_divides_by_says_nothing_of_another(pair: str) -> None:
    """In the arm that is not divided, both differ where the divisor of the other is 0."""
    assert not proved(UNDIVIDED[pair])


def test_where_nothing_else_counts_a_divisor_is_not_zero() -> None:
    assert proved((OVER_SIZE + Y, Y + 1))
    assert proved((select("gt", Y, 0, OVER_SIZE, X), select("gt", Y, 0, 1, X)))
    assert proved((select("gt", Y, 0, erf(Z * OVER_SIZE), X), select("gt", Y, 0, erf(Z), X)))


# divisors, and whether they are certainly 0 on no region
DIVISORS = {
    "an input": (X, True),
    "a difference": (X * X - Y, True),
    "a sum of exponentials": (exp2(X - top(X, Y)) + exp2(Y - top(X, Y)), True),
    "a root of a variance": (sqrt((X - Y) * (X - Y) + TENTH), True),
    "a product": (X * sqrt(X + Y) * exp2(Z), True),
    "a quotient": (X / (X + Y) + 1, True),
    "a maximum with 0": (top(X, 0), False),
    "a root less what it may be": (sqrt(X * X) + X, False),
    "a select": (select("gt", X, 0, Y, 0), False),
    "a compare in a root": (sqrt(select("gt", X, 0, Y, 0)), False),
    "a difference of maxima": (top(X, Y) - X, False),
}


@pytest.mark.parametrize("divisor", DIVISORS)
def test_divisors_that_are_0_on_no_region(divisor: str) -> None:
    divided_by, thin = DIVISORS[divisor]
    domain = TermDomain()
    build(Z / divided_by, domain)
    assert domain.equality.divides_by_numbers() == thin


def test_a_zero_divisor_is_never_part_of_a_proof() -> None:
    assert not proved((X / (Y - Y), X / (Z - Z)))
