"""What `benchmarks/step.py` compares with: the same networks and method, written the plain way."""
