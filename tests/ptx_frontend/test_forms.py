import pytest

from kcheck.ptx_frontend.forms import FORMS, match


def found(name: str) -> str | None:
    result = match(tuple(name.split(".")))
    return result.form.name if result else None


# every opcode of the sm_80 kernels that TileLang, Triton and nvcc gave us
SM_80 = """
add.f16 add.f16x2 add.f32 add.ftz.f32 add.rn.f32 add.s32 add.s64 add.u64 and.b16 and.b32 and.b64
and.pred atom.global.add.f32 atom.global.gpu.acq_rel.add.f32 bar.sync bar.warp.sync bfe.s32
bfe.u32 bfi.b32 bra bra.uni cp.async.ca.shared.global cp.async.cg.shared.global
cp.async.commit_group cp.async.wait_all cp.async.wait_group cvt.f32.f16 cvt.rn.f16.f32
cvt.rn.f16x2.f32 cvt.rn.f32.s32 cvt.s64.s32 cvt.u16.u32 cvt.u32.u16 cvt.u32.u64 cvt.u64.u32
cvta.to.global.u64 div.approx.f32 div.approx.ftz.f32 div.full.f32 div.rn.f32 div.s32 div.u32
ex2.approx.f32 ex2.approx.ftz.f32 fma.rn.f16 fma.rn.f32 ld.global.b16 ld.global.b32 ld.global.f32
ld.global.nc.f32 ld.global.nc.u16 ld.global.nc.u32 ld.global.nc.v2.u32 ld.global.nc.v4.f32
ld.global.nc.v4.u32 ld.global.v2.b32 ld.global.v4.b32 ld.local.f32 ld.param.b32 ld.param.b64
ld.param.s32 ld.param.u32 ld.param.u64 ld.shared.b32 ld.shared.f32 ld.shared.u32 ld.shared.v2.b16
ld.shared.v2.b32 ld.shared.v4.b16 ld.shared.v4.b32 ld.shared.v4.u32 ld.volatile.shared.f32
ldmatrix.sync.aligned.m8n8.x1.shared.b16 ldmatrix.sync.aligned.m8n8.x2.shared.b16
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 ldmatrix.sync.aligned.m8n8.x4.shared.b16
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 ldmatrix.sync.aligned.x4.m8n8.shared.b16
ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 mad.lo.s32 mad.lo.s64 mad.wide.s32 mad.wide.u32
max.f32 max.ftz.f32 max.s32 min.s32 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 mov.b16 mov.b32 mov.b64 mov.f32 mov.pred
mov.u16 mov.u32 mov.u64 mul.f32 mul.ftz.f32 mul.lo.s32 mul.lo.s64 mul.rn.f32 mul.wide.s32
mul.wide.u32 neg.f32 neg.s32 not.b32 or.b16 or.b32 or.b64 or.pred prmt.b32
red.global.gpu.relaxed.add.f32 rem.s32 rem.s64 rem.u32 ret rsqrt.approx.f32 rsqrt.approx.ftz.f32
selp.b32 selp.b64 selp.f32 setp.eq.b32 setp.eq.s32 setp.eq.s64 setp.ge.s32 setp.gt.s32 setp.gt.u32
setp.le.s32 setp.lt.s32 setp.lt.s64 setp.lt.u32 setp.ne.b32 setp.ne.b64 setp.ne.s32
shfl.sync.bfly.b32 shfl.sync.idx.b32 shl.b16 shl.b32 shl.b64 shr.s32 shr.u16 shr.u32 shr.u64
sqrt.approx.ftz.f32 st.global.b16 st.global.b32 st.global.f32 st.global.u16 st.global.u32
st.global.v2.b32 st.global.v2.f32 st.global.v2.u32 st.global.v4.b32 st.global.v4.f32
st.global.v4.u32 st.local.f32 st.shared.b16 st.shared.b32 st.shared.f32 st.shared.u16
st.shared.u32 st.shared.v2.b16 st.shared.v2.b32 st.shared.v2.u16 st.shared.v2.u32 st.shared.v4.b16
st.shared.v4.b32 st.shared.v4.u32 st.volatile.shared.f32 sub.f32 sub.ftz.f32 sub.rn.f32 sub.s32
xor.b32
"""


@pytest.mark.parametrize("name", SM_80.split())
def test_real_opcodes_are_known(name: str) -> None:
    assert found(name)


@pytest.mark.parametrize(
    "name",
    [
        "add.sat.f64",
        "add.sat.u32",
        "add.ftz.s32",
        "add.rn.s32",
        "add.f32.f32",
        "add.rn.rz.f32",
        "add",
        "add.b32",
        "mov.b32.foo",
        "mov.b128",
        "mov.b8",
        "ex2.approx.ftz.f32.sat",
        "ex2.f32",
        "ex2.approx.f64",
        "ex2.approx.bf16",
        "fma.f32",
        "fma.rn.sat.relu.f16",
        "fma.rn.relu.f32",
        "mul.s32",
        "mul.wide.s64",
        "mad.lo.sat.s32",
        "div.f32",
        "div.approx.f64",
        "sqrt.approx.f64",
        "max.NaN.f64",
        "min.NaN.s32",
        "setp.f32",
        "setp.lt.ftz.s32",
        "setp.equ.s32",
        "setp.lo.f32",
        "selp.pred",
        "slct.f32.f64",
        "cvt.f32",
        "cvt.f32.s32",
        "cvt.rn.s32.f32",
        "cvt.rni.f32.s32",
        "cvt.rn.relu.f32.f32",
        "cvt.rn.bf16x2.f16",
        "cvt.tf32.f32",
        "cvt.rn.satfinite.e4m3x2.f32",
        "ld.v8.f32",
        "ld.global.v3.f32",
        "ld.global.nc",
        "ld.shared.nc.f32",
        "ld.relaxed.global.f32",
        "ld.global.L2::cache_hint.f32",
        "st.global.nc.f32",
        "st.acquire.gpu.global.f32",
        "atom.global.max.f32",
        "atom.global.add",
        "red.global.acquire.gpu.add.f32",
        "cp.async.cg.global.shared",
        "cp.async.cg.shared.global.L2::cache_hint",
        "cp.async.bulk.commit_group",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f16.f16.f16.f16",
        "shfl.bfly.b32",
        "vote.sync.any.b32",
        "bar.red.popc.s32",
        "bra.foo",
        "ret.f32",
        "frobnicate",
        "shared::cta",
        "",
    ],
)
def test_a_suffix_that_no_row_takes_is_refused(name: str) -> None:
    assert found(name) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("add.rn.ftz.f32", "add.ftz.rn.f32"),
        (
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16",
        ),
        ("ld.global.nc.v4.f32", "ld.global.v4.nc.f32"),
        ("red.global.gpu.relaxed.add.f32", "red.relaxed.gpu.global.add.f32"),
        ("ld.volatile.shared.f32", "ld.shared.volatile.f32"),
    ],
)
def test_order_of_modifiers_is_free(one: str, other: str) -> None:
    left, right = match(tuple(one.split("."))), match(tuple(other.split(".")))
    assert left is not None
    assert right is not None
    assert (left.form, left.slots) == (right.form, right.slots)


@pytest.mark.parametrize(
    ("name", "form", "target", "source"),
    [
        ("cvt.rn.f16.f32", "cvt.float", "f16", "f32"),
        ("cvt.f32.f16", "cvt.float", "f32", "f16"),
        ("cvt.u64.u32", "cvt.int", "u64", "u32"),
        ("cvt.u32.u64", "cvt.int", "u32", "u64"),
        ("cvt.sat.s8.s32", "cvt.int", "s8", "s32"),
        ("cvt.rn.f32.s32", "cvt.int.float", "f32", "s32"),
        ("cvt.rzi.ftz.s32.f32", "cvt.float.int", "s32", "f32"),
        ("cvt.rni.f32.f32", "cvt.integral", "f32", "f32"),
        ("cvt.rn.satfinite.f16.f32", "cvt.satfinite", "f16", "f32"),
        ("cvt.rn.relu.bf16.f32", "cvt.relu", "bf16", "f32"),
        ("cvt.rn.relu.f16x2.f32", "cvt.half2", "f16x2", "f32"),
        ("cvt.rna.tf32.f32", "cvt.tf32", "tf32", "f32"),
    ],
)
def test_types_of_a_conversion_keep_their_order(
    name: str, form: str, target: str, source: str
) -> None:
    result = match(tuple(name.split(".")))
    assert result is not None
    assert result.form.name == form
    assert (result.slots["d"], result.slots["s"]) == (target, source)


def test_each_modifier_goes_to_the_first_open_element() -> None:
    mma = match(
        tuple(["mma", "sync", "aligned", "m16n8k8", "row", "col", "f32", "tf32", "tf32", "f32"])
    )
    assert mma is not None
    assert [mma.slots[s] for s in ("shape", "d", "a", "b", "c")] == [
        "m16n8k8",
        "f32",
        "tf32",
        "tf32",
        "f32",
    ]
    slct = match(("slct", "f32", "s32"))
    assert slct is not None
    assert (slct.slots["dtype"], slct.slots["type"]) == ("f32", "s32")


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.pattern)
def test_every_row_takes_its_own_words(form: object) -> None:
    """The first word of each element, in the order of the pattern, is taken, by this row or one
    before it with as many required elements: no row is dead because an earlier one is wider."""
    chosen = next(f for f in FORMS if f is form)
    words = [sorted(e.words)[0] for e in chosen.elements if not e.optional]
    opcode = (chosen.pattern.split()[0], *words)
    result = match(opcode)
    assert result is not None
    assert set(result.slots.values()) - {""} == set(words)


def test_optional_elements_are_empty_when_they_are_not_written() -> None:
    result = match(("add", "f32"))
    assert result is not None
    assert result.slots == {"rnd": "", "ftz": "", "sat": "", "type": "f32"}
    assert result.form.roles == ("d", "a", "b")
    async_copy = match(("cp", "async", "cg", "shared", "global"))
    assert async_copy is not None
    assert (async_copy.form.roles, async_copy.form.least) == (("m", "n", "size", "src"), 3)
