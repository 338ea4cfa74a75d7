"""NPY and NPZ: keys, images, targets beside the data, orders, damage."""

import zipfile

import numpy as np
import pytest

from phimap.config import config
from phimap.io import DataError, open_table


def collect(table, rows=1000):
    batches = list(table.batches(rows))
    X = np.concatenate([X for X, _ in batches])
    return X, None if batches[0][1] is None else np.concatenate([y for _, y in batches])


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (50, 6, 5), dtype=np.uint8), rng.integers(0, 10, 50, dtype=np.uint8)
    np.savez_compressed(tmp_path / "t.npz", X_train=pixels, y_train=labels, X_test=pixels[:9], y_test=labels[:9])
    return tmp_path / "t.npz", pixels, labels


def test_grey_images_with_labels_under_another_key(images):
    path, pixels, labels = images
    table = open_table(f"{path}:X_train", target="y_train")
    assert (table.sample_shape, table.is_image, table.n_features, table.n_rows) == ((6, 5, 1), True, 30, 50)
    assert table.target_name == "y_train"
    X, y = collect(table, 7)
    assert X.dtype == y.dtype == np.uint8
    np.testing.assert_array_equal(X, pixels[..., None])
    np.testing.assert_array_equal(y, labels)


def test_colour_images(tmp_path):
    pixels = np.random.default_rng(1).random((8, 4, 3, 3)).astype(np.float32)
    np.save(tmp_path / "t.npy", pixels)
    table = open_table(tmp_path / "t.npy")
    assert table.sample_shape == (4, 3, 3)
    np.testing.assert_array_equal(collect(table)[0], pixels)


def test_image_shape_survives_a_models_feature_names_but_not_a_subset(images):
    path, pixels, _ = images
    names = open_table(f"{path}:X_train").feature_names
    assert open_table(f"{path}:X_train", columns=names).is_image
    part = open_table(f"{path}:X_train", columns=names[3:5])
    assert part.sample_shape == (2,)
    np.testing.assert_array_equal(collect(part)[0], pixels.reshape(50, 30)[:, 3:5])


def test_the_key_may_be_left_out(tmp_path):
    np.savez(tmp_path / "t.npz", data=np.ones((3, 2)), y=np.arange(3))
    assert open_table(tmp_path / "t.npz", target="y").n_features == 2
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), Z=np.ones((3, 4)), y=np.arange(3))
    assert open_table(tmp_path / "t.npz", target="y").n_features == 2


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">f8", "<f4", "int16", "bool", "float16"])
def test_orders_and_dtypes(tmp_path, order, dtype):
    values = np.asarray(np.random.default_rng(2).integers(0, 90, (23, 4)), dtype=dtype, order=order)
    np.save(tmp_path / "t.npy", values)
    np.savez_compressed(tmp_path / "t.npz", values)
    for name in ("t.npy", "t.npz"):
        X, y = collect(open_table(tmp_path / name, target=-1), 5)
        np.testing.assert_array_equal(X, values[:, :3])
        np.testing.assert_array_equal(y, values[:, 3])
        assert y.dtype.kind == values.dtype.kind


@pytest.mark.parametrize(
    ("target", "shape", "kind"),
    [
        (np.arange(4), (4,), "i"),
        (np.arange(4.0).reshape(4, 1), (4,), "f"),
        (np.arange(8).reshape(4, 2), (4, 2), "f"),
        (np.array(["a", "b", "a", "c"]), (4,), "U"),
        (np.array([b"a", b"b", b"a", b"c"]), (4,), "U"),
        (np.array([True, False, True, True]), (4,), "b"),
        (np.arange(4, dtype=np.float32), (4,), "f"),
    ],
)
def test_a_target_in_another_file(tmp_path, target, shape, kind):
    np.save(tmp_path / "X.npy", np.ones((4, 3)))
    np.save(tmp_path / "y.npy", target)
    np.savez(tmp_path / "y.npz", labels=target)
    for path in (f"{tmp_path / 'y.npy'}", f"{tmp_path / 'y.npz'}:labels"):
        _, y = collect(open_table(tmp_path / "X.npy", target=path), 3)
        assert (y.shape, y.dtype.kind) == (shape, kind)
        assert y.dtype == np.float64 or kind != "f"
        np.testing.assert_array_equal(y, target.reshape(shape).astype(y.dtype))


def test_fortran_members_respect_the_budget(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", np.asfortranarray(np.ones((1000, 20))))
    table = open_table(tmp_path / "t.npz")
    with (
        config(memory=100_000),
        pytest.raises(DataError, match="Fortran order and takes 160000 bytes at once, 100000 are allowed"),
    ):
        list(table)
    assert collect(table)[0].shape == (1000, 20)


@pytest.mark.parametrize(
    ("arrays", "key", "options", "message"),
    [
        (
            {"a": np.ones((2, 2)), "b": np.ones((2, 3))},
            "",
            {},
            "say which array to read, as t.npz:KEY. .*'a', 'b'",
        ),
        ({"a": np.ones(2), "b": np.ones(3)}, "", {}, "say which array to read"),
        ({"X_train": np.ones((2, 2))}, ":X_trian", {}, "no array 'X_trian'. Choose from 'X_train'"),
        ({"X": np.ones(5)}, "", {}, r"has shape \(5,\); \(n, d\) or images"),
        ({"X": np.ones((1, 1, 1, 1, 1))}, "", {}, "has shape"),
        ({"X": np.ones((0, 3))}, "", {}, r"is empty, shape \(0, 3\)"),
        ({"X": np.array([["a"]])}, "", {}, "holds <U1; numbers are needed"),
        ({"X": np.ones((2, 2), complex)}, "", {}, "holds complex numbers"),
        ({"X": np.zeros((2, 2), "M8[s]")}, "", {}, "holds dates"),
        ({"X": np.zeros((2, 2), [("p", int)])}, "", {}, "holds records"),
        ({"X": np.array([[object()]])}, "", {}, "holds pickled objects, which are never loaded"),
        (
            {"X": np.ones((2, 2)), "y": np.array([{}, 1])},
            "",
            {"target": "y"},
            "t.npz:y: holds pickled objects",
        ),
        ({"X": np.ones((2, 2)), "y": np.ones(3)}, "", {"target": "y"}, r"shape \(3,\) does not fit 2 rows"),
        ({"X": np.ones((2, 2)), "y": np.ones((2, 1, 1))}, "", {"target": "y"}, "does not fit 2 rows"),
        ({"X": np.ones((2, 2)), "y": np.array([["a", "b"]] * 2)}, "", {"target": "y"}, "holds <U1; numbers are needed"),
        (
            {"X": np.ones((2, 2)), "y": np.ones(2)},
            "",
            {"target": "w"},
            "no target 'w'. Arrays of the file: .*'y'",
        ),
        ({"X": np.ones((2, 2))}, "", {"target": "5"}, "no target column '5'. Choose from "),
        (
            {"X": np.ones((2, 2, 2)), "y": np.ones(2)},
            "",
            {"target": "0"},
            "images have no target column '0'.*'y'",
        ),
        (
            {"X": np.ones((2, 1)), "y": np.array([1, np.nan])},
            "",
            {"target": "y"},
            "data row 2, column 'y' is missing",
        ),
        (
            {"X": np.ones((2, 1)), "y": np.array(["a", ""])},
            "",
            {"target": "y"},
            "data row 2, column 'y' is missing",
        ),
        (
            {"X": np.ones((2, 1)), "y": np.array([[1, 2], [1, np.inf]])},
            "",
            {"target": "y"},
            r"data row 2, column 'y\[:, 1\]' is infinite",
        ),
    ],
)
def test_errors(tmp_path, arrays, key, options, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError, match=message) as error:
        list(open_table(f"{tmp_path / 't.npz'}{key}", **options))
    assert "\n" not in str(error.value)


def test_a_target_file_that_is_missing(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((4, 3)))
    with pytest.raises(FileNotFoundError, match=r"y.npy: no such file"):
        open_table(tmp_path / "X.npy", target=str(tmp_path / "y.npy"))


def test_no_target_of_an_npy_file(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((4, 3)))
    with pytest.raises(DataError, match=r"no target 'y'. Use an array's name, a column number or a .npy path"):
        open_table(tmp_path / "X.npy", target="y")


@pytest.mark.parametrize("order", ["C", "F"])
def test_damaged_npy(tmp_path, order):
    path = tmp_path / "t.npy"
    np.save(path, np.ones((500, 3), order=order))
    intact = path.read_bytes()
    for content in (b"", b"\x93NUMPY", b"a,b\n1,2\n", intact[:60], intact[:-100]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"damaged or no NumPy file|ends before row 500") as error:
            list(open_table(path))
        assert "\n" not in str(error.value)


def test_damaged_npz(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, X=np.random.default_rng(3).random((500, 30)))
    intact = path.read_bytes()
    middle = len(intact) // 2
    for content in (b"", b"a,b\n", intact[:middle], intact[:middle] + bytes(64) + intact[middle + 64 :]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"damaged or no NumPy file .*Write it again") as error:
            list(open_table(path))
        assert "\n" not in str(error.value)


def test_an_archive_without_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    with pytest.raises(DataError, match="holds no arrays"):
        open_table(tmp_path / "t.npz")
