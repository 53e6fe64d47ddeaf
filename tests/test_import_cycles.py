"""No import cycles, imports inside functions counted, but for the few that are named."""

import pytest
from scripts.import_cycles import EDGES, cycles, imports_of, modules


def test_no_cycles_beyond_the_named_edges() -> None:
    assert cycles(without=EDGES) == []


@pytest.mark.parametrize("edge", EDGES, ids=" -> ".join)
def test_every_named_edge_is_still_an_import(edge: tuple[str, str]) -> None:
    known = modules("poela")
    assert edge[1] in imports_of(known[edge[0]], known)
