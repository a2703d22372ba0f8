"""Everybody's own data, one module a kind of file; origin.py decides whether an array is held in memory or mapped."""
