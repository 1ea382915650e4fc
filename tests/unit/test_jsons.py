"""JSON of any depth."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbind.jsons import DEPTH, _encode, encode, too_deep

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_deep_is_encoded_as_anything_else(value: Any) -> None:
    assert _encode(value, False) == orjson.dumps(value)
    assert _encode(value, True) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@pytest.mark.parametrize("levels", [254, 255, DEPTH])
@pytest.mark.parametrize(("start", "end"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_all_that_can_be_decoded_can_be_encoded(levels: int, start: bytes, end: bytes) -> None:
    text = start * levels + b"1" + end * levels
    assert encode(orjson.loads(text)) == text
    assert not too_deep(text)
    assert too_deep(start + text + end) is (levels == DEPTH)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode({"a": {1, 2}})


@pytest.mark.parametrize("text", [b'"' + b"[" * 2000, b'"\\' + b"[" * 2000 + b'"', b'"\\"' * 2000])
def test_brackets_in_strings_do_not_count(text: bytes) -> None:
    assert not too_deep(text)
