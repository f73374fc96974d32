import pytest

from bridle import errors


def test_a_message_has_the_one_form_and_the_error_carries_its_facts() -> None:
    error = errors.InvalidValue("sigma", "Agent", "a float in the range [0, 1]", 1.5, "Turn it.")
    assert str(error) == (
        "The 'sigma' parameter of Agent must be a float in the range [0, 1]. Got 1.5 instead. "
        "Turn it."
    )
    facts = (error.name, error.owner, error.expected, error.got, error.remedy)
    assert facts == ("sigma", "Agent", "a float in the range [0, 1]", 1.5, "Turn it.")


def test_an_unknown_id_and_a_limit_say_what_to_do() -> None:
    unknown = errors.UnknownId("arm", "x", "The agent has 2.")
    assert str(unknown) == "No arm 'x'. The agent has 2."
    assert (unknown.kind, unknown.id, unknown.remedy) == ("arm", "x", "The agent has 2.")
    limit = errors.LimitReached("examples", 1000, "Retract some.")
    assert str(limit) == "The limit of 1,000 examples is reached. Retract some."
    assert (limit.what, limit.limit, limit.remedy) == ("examples", 1000, "Retract some.")


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "BridleError"])
def test_every_error_is_a_bridle_error(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.BridleError)


def test_errors_are_also_what_python_programmers_catch() -> None:
    assert issubclass(errors.InvalidValue, ValueError)
    assert issubclass(errors.UnknownId, LookupError)


def test_a_long_value_does_not_flood_the_message() -> None:
    text = str(errors.InvalidValue("context", "Agent", "short", "y" * 10_000))
    assert len(text) < 250 and text.endswith("yyy... instead.")
