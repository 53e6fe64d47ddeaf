"""Each mistake of the list can still be made, and has a test."""

import pytest
from scripts.mutants import ROOT, named_mutants


@pytest.mark.parametrize("name", named_mutants())
def test_the_place_is_there_once_and_so_is_the_test(name: str) -> None:
    one = named_mutants()[name]
    source = (ROOT / "src" / "poela" / one["file"]).read_text("utf-8")
    assert source.count(one["old"]) == 1
    compile(source.replace(one["old"], one["new"]), one["file"], "exec")
    file, *names = one["test"].split("::")
    text = (ROOT / file).read_text("utf-8")
    assert all(f" {part}" in text for part in names)
