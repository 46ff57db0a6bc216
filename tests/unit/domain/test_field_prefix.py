"""Prefix: finds the names that begin alike, after any earlier questions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.worker.domain.stored_fields import MOST, FieldPrefix

NAMES = st.lists(
    st.sampled_from(["v:a", "v:", "V:a", "a", "av:", "o:v:", "", "v"]) | st.text(max_size=4),
    unique=True,
)


@settings(max_examples=30)
@given(st.lists(NAMES, max_size=5))
def test_all_names_with_the_prefix_are_found_in_their_order_and_no_others(
    asked: list[list[str]],
) -> None:
    values = FieldPrefix("v:")
    for names in [*asked, *asked]:
        assert values.names(dict.fromkeys(names, "")) == [
            name for name in names if name.startswith("v:")
        ]


def test_it_remembers_a_bounded_number_of_names() -> None:
    values = FieldPrefix("v:")
    for batch in range(4 * MOST):
        assert values.names({f"{batch}": "", f"v:{batch}": ""}) == [f"v:{batch}"]
    assert len(values._others) == MOST
