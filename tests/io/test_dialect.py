"""What is recognised of a text table: one row of the list for each way in which people write them."""

import pytest

from phimap.io import DataError, open_frame, open_table
from phimap.io.dialect import Dialect, recognise
from phimap.io.windows_1252 import WINDOWS_1252

PLAIN = "a,b,c\n1,2.5,x\n3,4.5,y\n"


def read(text, encoding="utf-8"):
    return recognise("t.csv", text if isinstance(text, bytes) else text.encode(encoding), whole=True)


def test_a_plain_table_has_nothing_to_tell():
    found = read(PLAIN)
    assert found == Dialect(("a", "b", "c"), lines_before=1)
    assert found.notes == []


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_separators(mark, word):
    found = read(PLAIN.replace(",", mark))
    assert found == Dialect(("a", "b", "c"), lines_before=1, separator=mark)
    assert found.notes == [f"separated by {word}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Commas inside cells separate no columns, nor do they where they are decimal marks.
        ("a;b\n1,5;2,25\n3,5;4,5\n", {"separator": ";", "decimal": ","}),
        ("a;b\n1.5;x, y\n3.5;z, w\n", {"separator": ";"}),
        ("1,5;2,5\n3,5;4,5\n", {"separator": ";", "decimal": ",", "has_header": False}),
        ("a\tb\n1,234.5\tx y\n2,345.5\tz w\n", {"separator": "\t"}),
        # Units and thousands do not hide the mark. One group of three digits after a mark does not show it.
        ("a;b\n14,2%;9.110\n8,5%;7.200\n", {"separator": ";", "decimal": ","}),
        ("a;b\n9.110;9.110 €\n12,5;EUR 7.200\n", {"separator": ";", "decimal": ","}),
        ("a;b\n1.234.567;x\n2.345.678;y\n", {"separator": ";", "decimal": ","}),
        ("a;b\n$1,234.5;1,234\n$20.5;2,345\n", {"separator": ";"}),
        ("a;b\n1,234;x\n2,345;y\n", {"separator": ";", "decimal": ",", "unclear": "1,234"}),
        ("a;b\n562;x\n2.345;y\n", {"separator": ";", "unclear": "2.345"}),
        ("a b\n1 2\n3 4\n", {"separator": " "}),
        ("  a   b\n  1   2\n 10  20\n", {"separator": " ", "squeezed": True}),
        ("a,b\n1, x\n2, y\n", {}),
        ("a,b\n'x, y',1\n'z',2\n", {"quote": "'"}),
        ('a,b\n"x; y",1\n"z; w",2\n', {}),
        ('a,b\n"two\nlines",1\n"z",2\n', {}),
        ("a,b\n1,2\n3\n", {}),
        ("a,b\n1,2\n\n3,4", {}),
        ("a,b\r\n1,2\r\n", {}),
        ("\ufeffa,b\n1,2\n", {}),
    ],
)
def test_cells_do_not_mislead(text, expected):
    found = read(text)
    names = ("a", "b") if found.has_header else ("c0", "c1")
    assert found == Dialect(names, lines_before=int(found.has_header), **expected)


@pytest.mark.parametrize("text", ["title\nHello, world\nBig, bad, wolf\nx\n", "name\nAnna Smith\nBob\n", "y\n1\n2\n"])
def test_one_column(text):
    assert len(read(text).names) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_encodings(encoding):
    found = read("größe,b\n1,ä\n2,é\n", encoding)
    assert found.names == ("größe", "b")
    assert found.encoding == {"utf-8-sig": "utf-8", "latin-1": WINDOWS_1252}.get(encoding, encoding)


@pytest.mark.parametrize("number", ["5.728", "5,728"])
def test_a_mark_that_may_separate_thousands_is_noted(number):
    found = read(f"a;b\n562;x\n{number};y\n")
    assert found.notes[1] == f"numbers such as {number} read as 5.728: remove marks that separate thousands"
    assert not any("thousands" in note for note in read(f"a;b\n56{number[1]}2;x\n{number};y\n").notes)
    assert not any("thousands" in note for note in read(f'a,b\n562,x\n"{number}",y\n').notes)


def test_every_byte_of_windows_is_a_character():
    """Excel writes € as the byte 0x80, which is a control character in Latin-1."""
    every = bytes(range(256))
    text = every.decode(WINDOWS_1252)
    assert (text[0x80], text[0x96], text[0xE9], text[0x81]) == ("€", "\N{EN DASH}", "é", "\x81")
    assert text.encode(WINDOWS_1252) == every
    assert read("preis;b\n5 €;„groß“\n7 €;–\n", "cp1252").notes == [
        "separated by semicolons",
        "encoded in Windows-1252",
    ]


@pytest.mark.parametrize(
    ("text", "names", "lines_before"),
    [
        ("1,2\n3,4\n", ("c0", "c1"), 0),
        # A text that occurs again in its column is no name.
        ("5.1,setosa\n4.9,setosa\n7.0,versicolor\n", ("c0", "c1"), 0),
        ("country,2019,2020\nGermany,1,2\nFrance,3,4\n", ("country", "2019", "2020"), 1),
        ("# made by hand\n\n# 2020\na,b\n1,2\n", ("a", "b"), 4),
        ("# a b\n1 2\n3 4\n", ("a", "b"), 1),
        ("#,a\n1,2\n3,4\n", ("#", "a"), 1),
        ("sep=;\na;b\n1;2\n", ("a", "b"), 2),
        ("Sales of 2020\n\na,b,c\n1,2,3\n4,5,6\n", ("a", "b", "c"), 3),
        (" a , b \n1,2\n", ("a", "b"), 1),
        # Rows end with a separator, or begin with their name, as R writes them.
        ("a,b\n1,2,\n3,4,\n", ("a", "b", ""), 1),
        ("a,b,\n1,2\n3,4\n", ("a", "b"), 1),
        ("a,b\nx,1,2\ny,3,4\n", ("", "a", "b"), 1),
    ],
)
def test_headers(text, names, lines_before):
    found = read(text)
    assert (found.names, found.lines_before) == (names, lines_before)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b" \n \n", "is empty"), (b"# a\n# b\n", "comments but no rows"), (b"a\0b,c\n", "is not text")],
)
def test_what_is_no_table(content, message):
    with pytest.raises(DataError, match=message):
        read(content)


def test_a_cut_inside_a_character_or_a_row_is_no_fault():
    content = ("a;b\n" + "1,5;ä\n" * 50).encode()
    for stop in range(len(content) - 12, len(content)):
        found = recognise("t.csv", content[:stop], whole=False)
        assert (found.separator, found.decimal, found.encoding) == (";", ",", "utf-8")


def test_both_readers_share_what_is_recognised(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("Measurements\n a   b   c\n 1,5  2   3\n10    4   5,25 \n")
    table, frame = open_table(path, target="c"), open_frame(path, target="c")
    assert table.notes == frame.notes == ("separated by spaces", "decimal commas")
    (X, y), (columns, z) = next(iter(table)), next(iter(frame))
    assert X.tolist() == [[1.5, 2], [10, 4]]
    assert columns.to_pydict() == {"a": [1.5, 10], "b": [2, 4]}
    assert y.tolist() == z.tolist() == [3, 5.25]
