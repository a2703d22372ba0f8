"""Many runs from one description, on this machine or on a Ray cluster.

plan       which runs there are: settings, any of them a list, and their combinations
start      `sweep`: train what is not done, and return the table
run        what the process of one run does
folder     the folder of a sweep
table      one row per run, in files and in Python
page       the comparison page, kept up to date

engine     tasks in processes of their own; `narrows reproduce` uses it too
process    one call in a process of its own
local      the engine on this machine
cluster    the engine on Ray
"""
