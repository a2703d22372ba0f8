"""The command line: parse, dispatch, exit codes; no arithmetic.

program    the program, its exit codes and --config
words      what is typed, checked word by word
output     standard output and standard error
app        its name, help and version
train      train, front, resume, show
apply      encode, decode, reconstruct, impute, sample, export
sweep, evaluate, report, explore, watch, bench, data, reproduce

Exit codes: 0 when the command did its work (whether or not tau was met: the answer says so), 1 when something broke,
2 when the input cannot be used (one line says what, where and what to do), 128 + signal when a run was stopped by one,
141 when nobody reads the output any more (`| head`), as of other programs; training then goes on and ends with 0.
"""

from narrows.cli.program import main as main
