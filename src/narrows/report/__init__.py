"""How a run looks: in the terminal, as figures, and as one self-contained page.

contents         what a run's folder holds, read once
text             the answer, the certificate and the progress as sentences
run_page         a run's report; model_sections and settings have some of its sections
comparison       several runs, or a front, on one page
html             pages and their blocks, drawn by templates/ with the scripts and the style in assets/
images           images side by side in one PNG
evaluation       the table of `narrows evaluate`
sets             the named sets as text
figures/         charts: one specification, three renderers
displays/        figures from Python, in the form of scikit-learn's displays
live/            a run while it trains
"""
