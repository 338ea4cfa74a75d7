"""Image folders: order, classes, modes, sizes, and what is refused."""

import io
import os
import sys

import numpy as np
import pytest
from PIL import Image, features

from phimap.io import DataError, open_table
from phimap.io.skipped import Skipped


def write(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def colours(rng, n=None, height=6, width=5):
    return rng.integers(0, 256, ((n,) if n else ()) + (height, width, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, rng):
    """Three classes whose files are not in the order in which they were made, and their pixels in sorted order."""
    pixels = colours(rng, 6)
    names = ["a b/10.png", "a b/9.png", "cats/1.png", "cats/sub/0.png", "dogs/x.PNG", "dogs/y.png"]
    for i in (3, 5, 0, 4, 1, 2):
        write(tmp_path / "pets" / names[i], pixels[i])
    return tmp_path / "pets", names, pixels


def test_images_in_the_order_of_their_paths_with_their_classes(folder):
    path, names, pixels = folder
    table = open_table(path, "class")
    assert (table.sample_shape, table.is_image, table.n_features, table.n_rows) == ((6, 5, 3), True, 90, 6)
    assert (table.row_names, table.target_name) == (tuple(names), "class")
    for rows in (1, 4, 6, 100):
        batches = list(table.batches(rows))
        assert [len(X) for X, _ in batches] == [min(rows, 6 - start) for start in range(0, 6, rows)]
        X, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        assert X.dtype == np.uint8
        np.testing.assert_array_equal(X, pixels)
        assert y.tolist() == ["a b"] * 2 + ["cats"] * 2 + ["dogs"] * 2


def test_without_a_target_folders_have_no_meaning(folder):
    path, names, pixels = folder
    write(path / "loose.png", pixels[0])
    (path / "empty").mkdir()
    table = open_table(path, dtype=np.float64)
    ((X, y),) = list(table)
    assert y is None
    assert table.row_names == (*names, "loose.png")
    np.testing.assert_array_equal(X, [*pixels, pixels[0]])
    assert X.dtype == np.float64


def test_blocks_are_small_and_batches_whole(folder, monkeypatch):
    path, _, pixels = folder
    monkeypatch.setattr("phimap.io.images._BLOCK_BYTES", 200)
    table = open_table(path, "class")
    assert max(len(X) for X, _ in table._blocks(100, Skipped())) == 2
    np.testing.assert_array_equal(next(table.batches(5))[0], pixels[:5])


def test_hidden_files_and_other_kinds_are_passed_over(folder):
    path, names, _ = folder
    for name in (".cats.png", "cats/._1.png", ".git/x.png", "cats/notes.txt", "model.phimap", "dogs/Thumbs.db"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"no image")
    assert open_table(path, "class").row_names == tuple(names)


@pytest.mark.parametrize("suffix", ["bmp", "gif", "jpg", "png", "ppm", "tif", "webp"])
def test_formats(tmp_path, suffix):
    if suffix == "webp" and not features.check("webp"):
        pytest.skip("this Pillow has no WebP")
    block = np.kron(np.array([[0, 255], [255, 0]], np.uint8), np.ones((8, 8), np.uint8))
    options = {"lossless": True} if suffix == "webp" else {}
    write(tmp_path / "a" / f"1.{suffix}", np.stack([block] * 3, axis=2), **options)
    X, _ = next(iter(open_table(tmp_path, "class", channels=1)))
    np.testing.assert_allclose(X[0, :, :, 0].astype(int), block, atol=2 if suffix == "jpg" else 0)


GREY = np.arange(30, dtype=np.uint8).reshape(6, 5)


def as_mode(mode):
    image = Image.fromarray(GREY)
    if mode == "I;16":
        return Image.fromarray(GREY.astype(np.uint16) * 256 + 200)
    if mode == "1":
        return image.point(lambda value: 255 * (value > 9)).convert("1")
    return image.convert(mode)


@pytest.mark.parametrize(
    ("mode", "suffix", "n_channels"),
    [
        ("L", "png", 1),
        ("I;16", "png", 1),
        ("I;16", "tif", 1),
        ("1", "png", 1),
        ("LA", "png", 1),
        ("RGB", "png", 3),
        ("RGBA", "png", 3),
        ("P", "png", 3),
        ("CMYK", "tif", 3),
    ],
)
def test_modes_become_grey_or_rgb_in_bytes(tmp_path, mode, suffix, n_channels):
    (tmp_path / "a").mkdir()
    as_mode(mode).save(tmp_path / "a" / f"1.{suffix}")
    table = open_table(tmp_path)
    ((X, _),) = list(table)
    expected = 255 * (GREY > 9) if mode == "1" else GREY
    assert X.shape == (1, 6, 5, n_channels)
    np.testing.assert_array_equal(X[0], np.repeat(expected[:, :, None], n_channels, axis=2))
    for channels in (1, 3):
        ((X, _),) = list(open_table(tmp_path, channels=channels))
        np.testing.assert_array_equal(X[0], np.repeat(expected[:, :, None], channels, axis=2))


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_transparent_pixels_are_white(tmp_path, mode):
    image = as_mode(mode)
    image.putalpha(Image.fromarray(np.where(GREY > 9, 255, 0).astype(np.uint8)))
    image.save(tmp_path / "1.png")
    ((X, _),) = list(open_table(tmp_path, channels=1))
    np.testing.assert_array_equal(X[0, :, :, 0], np.where(GREY > 9, GREY, 255))


def test_grey_images_among_coloured_ones_become_rgb_but_not_the_other_way(tmp_path, rng):
    write(tmp_path / "1.png", colours(rng))
    write(tmp_path / "2.png", GREY)
    ((X, _),) = list(open_table(tmp_path))
    np.testing.assert_array_equal(X[1], np.repeat(GREY[:, :, None], 3, axis=2))
    write(tmp_path / "0.png", GREY)
    with pytest.raises(DataError, match=r"1.png: is in colour, the first image is grey. Choose channels=3"):
        list(open_table(tmp_path))


def test_cameras_that_were_turned(tmp_path, rng):
    pixels = colours(rng)
    exif = Image.Exif()
    exif[0x0112] = 6
    write(tmp_path / "1.png", pixels, exif=exif)
    ((X, _),) = list(open_table(tmp_path))
    np.testing.assert_array_equal(X[0], np.rot90(pixels, -1))


def test_resizing_averages_where_images_shrink(tmp_path):
    small = (8 * GREY[:, :, None] * np.ones(3)).astype(np.uint8)
    write(tmp_path / "1.png", np.kron(small, np.ones((16, 16, 1), np.uint8)))
    write(tmp_path / "2.png", small)
    ((X, _),) = list(open_table(tmp_path, size=(6, 5)))
    np.testing.assert_array_equal(X[1], small)
    # Bilinear smoothing reaches into the neighbours: a linear ramp keeps its values but at the edges.
    np.testing.assert_allclose(X[0, 1:-1, 1:-1].astype(int), small[1:-1, 1:-1], atol=2)
    assert open_table(tmp_path, size=(3, 4)).sample_shape == (3, 4, 3)


def test_large_photographs_are_decoded_in_part(tmp_path, monkeypatch):
    ramp = np.linspace(0, 255, 640).astype(np.uint8)
    photo = np.stack([np.broadcast_to(ramp, (320, 640))] * 3, axis=2)
    write(tmp_path / "1.jpg", photo, quality=95)
    write(tmp_path / "2.png", photo)
    decoded = []
    convert = Image.Image.convert
    monkeypatch.setattr(Image.Image, "convert", lambda self, mode: decoded.append(self.size) or convert(self, mode))
    table = open_table(tmp_path, size=(16, 20))
    decoded.clear()
    ((X, _),) = list(table)
    assert decoded == [(80, 40), (640, 320)]
    np.testing.assert_allclose(X[0].astype(int), X[1], atol=3)


def refuse(path, message, **options):
    with pytest.raises(DataError, match=message) as error:
        list(open_table(path, **options))
    assert "\n" not in str(error.value)


def test_sizes_that_differ(folder, rng):
    path, _, _ = folder
    write(path / "dogs" / "z.png", colours(rng, height=7))
    refuse(path, r"z.png: has 7 x 5 pixels \(height x width\), the first image has 6 x 5. .*size=\.\.\.")


def test_damaged_files(folder):
    path, _, _ = folder
    intact = (path / "cats" / "1.png").read_bytes()
    buffer = io.BytesIO()
    Image.open(io.BytesIO(intact)).save(buffer, "JPEG")
    photo = buffer.getvalue()
    for content in (b"", b"text", intact[: len(intact) // 2], intact[:40] + bytes(9) + intact[49:], photo[:-40]):
        (path / "cats" / "1.png").write_bytes(content)
        refuse(path, r"1.png: damaged or no image \(.*\). Save it again, or remove it", target="class")
    Image.fromarray(GREY.astype(np.float32)).save(path / "cats" / "1.png", "TIFF")
    refuse(path, r"1.png: has pixels of mode 'F'. Save it with 8 or 16 bits")


def test_too_many_pixels(folder, monkeypatch):
    path, _, _ = folder
    # Pillow warns above its limit and raises only above twice of it: both are refused.
    for limit in (20, 10):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        refuse(path, r"10.png: is too large .*decompression bomb")


def test_files_that_change_between_passes(folder):
    path, names, _ = folder
    table = open_table(path, "class")
    list(table)
    (path / names[2]).unlink()
    with pytest.raises(DataError, match=r"1.png: is no file"):
        list(table)


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (lambda path: (path / "birds").mkdir(), {"target": "class"}, r"birds: is a class without images. Remove"),
        (
            lambda path: write(path / "a.png", GREY),
            {"target": "class"},
            r"a.png: lies in no class folder. .*CLASS/a.png",
        ),
        (lambda path: None, {"target": "kind"}, r"have one target, 'class', got 'kind'. Leave it out"),
        (lambda path: None, {"columns": ["c0"]}, r"images have no columns to choose from"),
    ],
)
def test_folders_that_do_not_fit(folder, spoil, options, message):
    spoil(folder[0])
    refuse(folder[0], message, **options)


def test_a_folder_without_images(tmp_path):
    (tmp_path / "notes.md").write_text("a,b\n1,2\n")
    refuse(tmp_path, r"holds no images \(.png, .*\). Give a folder of images or of tables, or the path of a file")


def test_folders_that_cannot_be_listed(folder, monkeypatch):
    path, _, _ = folder
    scandir = os.scandir

    def guarded(place):
        if os.fspath(place).endswith("cats"):
            raise PermissionError(13, "Permission denied", os.fspath(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", guarded)
    refuse(path, r"cats: cannot be listed \(Permission denied\). Check its permissions")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links(folder):
    path, _, _ = folder
    (path / "dogs" / "z.png").symlink_to(path / "dogs" / "y.png")
    assert open_table(path, "class").row_names[-1] == "dogs/z.png"
    (path / "cats" / "again").symlink_to(path)
    refuse(path, r"again: is a link to a folder, which is not followed")
    (path / "cats" / "again").unlink()
    (path / "dogs" / "z.png").unlink()
    (path / "dogs" / "z.png").symlink_to(path / "gone.png")
    refuse(path, r"z.png: is no file. Remove it, or the broken link")
    (path / "dogs" / "z.png").unlink()
    os.mkfifo(path / "dogs" / "z.png")
    refuse(path, r"z.png: is no file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 32}, r"`size` must be \(height, width\), got 32"),
        ({"size": (0, 4)}, r"`size` must be a positive integer, got 0"),
        ({"channels": 4}, r"`channels` must be 1 \(grey\) or 3 \(RGB\), got 4"),
    ],
)
def test_options_are_checked(folder, options, message):
    with pytest.raises(ValueError, match=message):
        open_table(folder[0], **options)


def test_options_of_images_do_not_fit_files(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"`size` and `channels` apply to folders of images"):
        open_table(tmp_path / "t.npy", size=(4, 4))


def test_pillow_may_be_missing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"images are read by Pillow. Install it: pip install pillow"):
        open_table(folder[0])
