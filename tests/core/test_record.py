"""The quick decorator makes what the standard one makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A value with a default, a factory and a check."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = dataclasses.field(default_factory=tuple)
    kind: ClassVar[str] = "point"

    def __post_init__(self) -> None:
        assert self.x >= 0


@dataclass(frozen=True, slots=True)
class Place(Point):
    """Adds a field, and changes a default."""

    y: int = 5
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """Keeps methods of its own."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(slots=True)
class Mutable:
    """Not frozen: equal by value, without a hash."""

    x: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entity:
    """Equal to itself only."""

    x: int = 0


@dataclass(slots=True, order=True)
class Ordered:
    """An option that is left to the standard decorator."""

    x: int = 0


def test_positional_keyword_and_default_arguments() -> None:
    assert (Point(1).y, Point(1, 3).y, Point(x=1, y=4).y, Point(1).tags) == (2, 3, 4, ())


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)


def test_a_field_without_a_default_does_not_follow_one_with_it() -> None:
    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):

        @dataclass(frozen=True, slots=True)
        class _Backward:
            x: int = 0
            y: int


def test_initializers_name_their_class_and_parameters() -> None:
    assert Place.__init__.__qualname__ == "Place.__init__"
    assert Place(name="a", y=1, x=2) == Place(2, 1, (), "a")
    with pytest.raises(TypeError, match=r"Place.__init__\(\) takes from 2 to 5 positional arguments but 6 were given"):
        Place(1, 2, (), "a", 5)


def test_the_check_runs() -> None:
    with pytest.raises(AssertionError):
        Point(-1)


@dataclass(frozen=True, slots=True)
class Demanded:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.tags.append("checked")


def test_the_first_call_of_an_initializer_makes_it_and_does_the_same_as_later_ones() -> None:
    shared: list[str] = []
    for number in range(3):
        made = [Demanded(number), Demanded(x=number), Demanded(number, shared), Demanded(number, tags=shared)]
        assert [value.x for value in made] == [number] * 4
        assert made[0].tags == ["checked"] and made[2].tags is made[3].tags is shared


def test_equality_is_of_values_and_class() -> None:
    assert Point(1) == Point(1, 2)
    assert Point(1) != Point(2)
    assert Place(1, 2) != Point(1, 2)
    assert Empty() == Empty()
    assert Point(1) != 1


def test_equal_values_have_one_hash() -> None:
    assert len({Point(1), Point(1, 2), Point(2)}) == 2


def test_representation() -> None:
    assert repr(Place(1, name="a")) == "Place(x=1, y=5, tags=(), name='a')"


def test_frozen_and_slotted() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.other = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")
    assert not hasattr(Place(1), "__dict__")


def test_fields_replace_and_match() -> None:
    assert [field.name for field in dataclasses.fields(Place)] == ["x", "y", "tags", "name"]
    assert dataclasses.replace(Place(1, name="a"), x=3) == Place(3, name="a")
    match Place(1, 7):
        case Place(x, y):
            assert (x, y) == (1, 7)


def test_class_variables_are_no_fields() -> None:
    assert (Point.kind, Point(1).kind) == ("point", "point")


def test_methods_of_its_own_stay() -> None:
    assert Named("A") == Named("a")
    assert len({Named("A"), Named("a")}) == 1
    assert repr(Named("A")) == "A"


def test_copies() -> None:
    place = Place(1, name="a")
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)) == place


def test_mutable_values() -> None:
    value = Mutable()
    value.x = 3
    assert value == Mutable(3)
    assert Mutable().tags is not Mutable().tags
    assert dataclasses.is_dataclass(Mutable) and not hasattr(value, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_entities_are_equal_to_themselves_only() -> None:
    value = Entity(1)
    value.x = 2
    assert value == value and value != Entity(2)
    assert len({value, Entity(2)}) == 2
    assert copy.deepcopy(value).x == 2


def test_other_options_are_the_standard_decorators() -> None:
    assert Ordered(1) < Ordered(2)
