"""Charts: one specification, built from runs, drawn by three renderers.

specification  what a chart shows
charts         the charts of one run and of several
gate_lines     when each gate was open
figure_files   the renderer for curves.png and front.png (matplotlib)
terminal       the renderer for a terminal; braille has its dots
The third renderer is the page's script, assets/report.js.
"""
