"""What the models of rules share: unknown words are refused with a suggestion, and one text stands for a list of
one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hooksdk.errors import unknown_key
from hooksdk.values import as_list as list_of


def as_list(value: object) -> object:
    """A text as a list of one. Raises `ValueError` for an empty list."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and not value:
        raise ValueError("an empty list fits nothing; leave the setting out, or fill it")
    return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next


Texts = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(as_list)]


def check_known(word: str, known: Collection[str], what: str) -> None:
    """Raises `ValueError` for a word that is not among those known, with the nearest."""
    if word not in known:
        raise ValueError(unknown_key(word, known, f"a known {what}"))


def known_words(known: Collection[str], what: str) -> BeforeValidator:
    """For a field with one of these words, or with several."""

    def check(value: object) -> object:
        words = as_list(value)
        for word in list_of(words):
            check_known(str(word), known, what)
        return words

    return BeforeValidator(check)


class Strict(BaseModel):
    """Refuses unknown keys with a suggestion."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: object) -> object:
        if isinstance(value, Mapping):
            for name in cast("Mapping[str, Any]", value):
                check_known(str(name), cls.model_fields, "setting")
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next
