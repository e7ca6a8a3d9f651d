"""CSV that opens safely in a spreadsheet."""

import pytest

from portal import csvs


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "-x", "-1e9", "@x", "\tx", "\rx"])
def test_no_text_becomes_a_formula(text: str) -> None:
    assert csvs.cell(text) == f"'{text}"


@pytest.mark.parametrize(
    ("value", "cell"), [(None, ""), (-1, -1), ("-12.50", "-12.50"), ("a=b", "a=b"), ("研究", "研究")]
)
def test_other_values_stay(value: object, cell: object) -> None:
    assert csvs.cell(value) == cell


def test_a_download_streams_rows_as_an_attachment() -> None:
    response = csvs.download("x.csv", ["a", "b"], [["1", 'say "hi"'], [None, "研究"]])

    assert response.streaming
    assert response["Content-Disposition"] == 'attachment; filename="x.csv"'
    text = b"".join(response).decode("utf-8-sig")
    assert text == 'a,b\r\n1,"say ""hi"""\r\n,研究\r\n'
