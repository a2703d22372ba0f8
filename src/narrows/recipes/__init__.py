"""How a model is trained.

base           what a recipe is, and the records of a step
paper          Algorithm 1: the step in the paper's order, and the recipe around it
hidden_layers  the same step for gates on hidden layers
fast           the fast recipe: L0 first, KL second
monitor        held-out error and removal costs of the averaged weights
rotation       directions of the latent space by their cost of removal
controller     when gates close, when a closing is undone, and when training ends
optimiser      Muon for hidden layers, Adam for the rest
registry       the recipes by name, with their traits
"""
