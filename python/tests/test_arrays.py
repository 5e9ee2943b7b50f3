"""Which arrays are taken, and what their memory may look like."""

import cases
import gradkern
import numpy as np
import pytest

X = np.arange(2 * 9 * 9 * 3, dtype=np.float32).reshape(2, 9, 9, 3) % 7
POOL = dict(kernel=(2, 2), strides=(2, 2))


def pooled(x):
    return gradkern.avg_pool(np.ascontiguousarray(x), **POOL)


def with_gaps():
    big = np.full((4, 18, 9, 6), np.nan, np.float32)
    view = big[::2, ::2, :, 1:4]
    view[...] = X
    return view


VIEWS = {
    "every other image and row, some channels": with_gaps(),
    "axes in another order": np.asfortranarray(X),
    "rows backwards": X[:, ::-1],
    "one image twice": np.broadcast_to(X[:1], X.shape),
    "read-only": np.frombuffer(X.tobytes(), np.float32).reshape(X.shape),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_inputs_may_have_any_strides(view):
    assert np.array_equal(gradkern.avg_pool(view, **POOL), pooled(view))


def test_nothing_is_copied():
    out = np.full((2, 8, 4, 6), -1, np.float32)
    view = out[:, ::2, :, 1:4]
    assert gradkern.avg_pool(X, **POOL, out=view) is view
    assert np.array_equal(view, pooled(X))
    view[...] = -1
    assert np.all(out == -1)


def test_outputs_must_not_overlap_themselves_or_inputs():
    storage = np.zeros((2, 4, 4, 3), np.float32)
    twice = np.lib.stride_tricks.as_strided(storage, (2, 4, 4, 3), (0, *storage.strides[1:]))
    with pytest.raises(gradkern.Error, match="dst"):
        gradkern.avg_pool(X, **POOL, out=twice)
    x = X.copy()
    with pytest.raises(gradkern.Error, match="shares memory with src"):
        gradkern.avg_pool(x, **POOL, out=x[:, :4, :4])
    assert np.array_equal(x, X)


REFUSED = {
    "a list": ([[1.0]], "got a list"),
    "integers": (X.astype(np.int32), "int32"),
    "complex numbers": (X.astype(np.complex64), "complex64"),
    "unsigned numbers of 16 bits": (X.astype(np.uint16), "uint16"),
    "another byte order": (X.astype(">f4"), "expected an array"),
    "no array": ("text", "got builtins.str"),
    "strides that are no multiples": (np.zeros(2, [("a", np.float32), ("b", np.uint8)])["a"], "expected an array"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_other_objects_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        gradkern.avg_pool(value, **POOL)


def test_memory_has_to_be_aligned():
    x = np.frombuffer(bytearray(X.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(X.shape)
    with pytest.raises(ValueError, match="src.*aligned"):
        gradkern.avg_pool(x, **POOL)


def test_outputs_have_to_be_writable():
    out = np.zeros((2, 4, 4, 3), np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="dst.*writable"):
        gradkern.avg_pool(X, **POOL, out=out)


def test_more_than_five_axes_are_refused():
    with pytest.raises(gradkern.Error, match="got 6 axes"):
        gradkern.avg_pool(np.zeros((1,) * 6, np.float32), **POOL)


def test_the_buffer_protocol_is_enough():
    import array

    data = array.array("f", [1, 2, 3, 4])
    shaped = memoryview(data).cast("B").cast("f", (1, 4, 1))
    assert gradkern.avg_pool(shaped, kernel=[2], strides=[2]).ravel().tolist() == [1.5, 3.5]


def test_any_object_with_dlpack_is_taken():
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    assert np.array_equal(gradkern.avg_pool(Other(X), **POOL), pooled(X))


@pytest.mark.skipif("bfloat16" not in cases.TYPES, reason="needs ml_dtypes")
def test_bf16_arrays_of_numpy_keep_their_strides():
    x = X.astype(cases.TYPES["bfloat16"])
    result = gradkern.avg_pool(x[:, ::-1], **POOL)
    assert result.dtype == cases.TYPES["bfloat16"]
    assert np.array_equal(result, gradkern.avg_pool(np.ascontiguousarray(x[:, ::-1]), **POOL))
    assert np.array_equal(result, pooled(x[:, ::-1].astype(np.float32)).astype(result.dtype))


def test_plans_take_types_and_shapes_in_place_of_arrays():
    plan = gradkern.plan(gradkern.avg_pool, gradkern.spec(X.shape, np.float64), **POOL)
    assert plan(X.astype(np.float64)).dtype == np.float64
    with pytest.raises(gradkern.Error, match="got f32.*planned for f64"):
        plan(X)
    twice = np.broadcast_to(X[:1], X.shape)
    strided = gradkern.plan(gradkern.avg_pool, gradkern.spec(X.shape, "float32", [s // 4 for s in twice.strides]), **POOL)
    assert np.array_equal(strided(twice), pooled(twice))
    with pytest.raises(gradkern.Error, match="with other strides"):
        strided(X)


def test_plans_keep_no_array_alive():
    import sys

    x = X.copy()
    before = sys.getrefcount(x)
    plan = gradkern.plan(gradkern.avg_pool, x, **POOL)
    plan(x)
    assert sys.getrefcount(x) == before
