"""The allocator's settings can be asked for anywhere, and say whether they took."""

import subprocess
import sys


def test_asking_is_harmless():
    code = (
        "from narrows.allocator import keep_memory, memory_is_kept; before = memory_is_kept(); kept = keep_memory(); "
        "print(kept); print(bytearray(10**8)[-1]); assert not before and memory_is_kept() == kept"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] in ("True", "False")
    assert done.stdout.splitlines()[1] == "0"
