"""The server does as its own description says, for policies of every need: schemathesis looks for where it does not."""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from tests.serving.episodes import logs, mixed_logs
from tests.serving.policies import NEAR, POLICIES, last
from tests.serving.test_doses import POLICIES as DOSES

from poela.behavior.multinomial import MultinomialBehavior
from poela.learners.consensus import Consensus
from poela.serving.application import application
from poela.serving.source import PolicySource

HERE = "http://127.0.0.1"
TOKEN = "correct-horse-battery-staple"
LOOKED_FOR = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


SERVED: dict[str, Callable[[], Any]] = {
    "contexts": lambda: POLICIES["poela"](logs()),
    "steps": lambda: POLICIES["fittedq, no history"](logs()),
    "histories": lambda: POLICIES["fittedq"](logs()),
    "text and gaps": lambda: last(Consensus(rule=NEAR), mixed_logs(), MultinomialBehavior()),
    "amounts": DOSES["continuouspoela"],
}


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("name", SERVED)
def test_the_server_does_as_it_says(name: str, token: str | None) -> None:
    app = application(PolicySource(SERVED[name](), "a policy"), token)
    headers = {"Host": "127.0.0.1", **({} if token is None else {"Authorization": f"Bearer {token}"})}
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 6
    for operation in operations:
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            if mode is GenerationMode.NEGATIVE and operation.method != "post":
                continue

            @given(operation.as_strategy(generation_mode=mode))
            @LOOKED_FOR
            def agrees(case: Any) -> None:
                case.call_and_validate(base_url=HERE, headers=headers)

            agrees()
