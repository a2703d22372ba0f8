"""12. The command line: parse, dispatch, exit codes; no arithmetic.

Exit codes: 0 the run ended (whether or not tau was met: the answer says so), 1 something broke, 2 the input cannot
be used (one line says what, where and what to do), 128 + signal when a run was stopped by one.

`program.py` has the program and its exit codes, `training.py` the commands that train and show, `reports.py` the pages,
`exploring.py` the local page with sliders, `sets.py` those about data, `experiments.py` the paper's experiments,
`using.py` and `evaluating.py` what a trained model is for and how good it is, `watching.py` a run at work.
"""

from narrows.cli.program import main as main
