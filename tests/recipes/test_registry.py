"""A recipe's name, its class and its traits belong together."""

import importlib
from dataclasses import fields
from typing import get_args

import pytest

from commands import option_help
from narrows.recipes.base import Recipe
from narrows.recipes.registry import RECIPES, RecipeName
from narrows.training.config import TrainConfig


def test_every_name_has_a_recipe_and_is_offered():
    assert set(RECIPES) == set(get_args(RecipeName))
    for name in RECIPES:
        assert f"{name}: " in option_help("recipe")


@pytest.mark.parametrize("name", RECIPES)
def test_traits_belong_to_a_class_and_to_settings_that_exist(name):
    traits = RECIPES[name]
    module, _, home = traits.home.partition(":")
    assert issubclass(getattr(importlib.import_module(module), home), Recipe)
    assert set(traits.unused) <= {field.name for field in fields(TrainConfig)}
    assert traits.ends_by_itself == (traits.default_steps is None)


def test_only_recipes_that_decide_override_deciding():
    for traits in RECIPES.values():
        module, _, home = traits.home.partition(":")
        recipe = getattr(importlib.import_module(module), home)
        assert (recipe.decide is not Recipe.decide) == traits.measures_heldout
        assert (recipe.heldout_error is not Recipe.heldout_error) == traits.measures_heldout
