"""The time of a step by kind of operation (torch.profiler), with settled gates.

python benchmarks/where.py
"""

from collections import defaultdict

from step import SHAPES, Subject, ours

KINDS = {
    "convolution_backward": "convolutions, backward",
    "mkldnn_convolution": "convolutions, forward",
    "_embedding_bag_forward_only": "sums of products",
    "native_batch_norm_backward": "BatchNorm, backward",
    "native_batch_norm": "BatchNorm, forward",
    "leaky_relu": "leaky ReLU",
    "leaky_relu_": "leaky ReLU",
    "leaky_relu_backward": "leaky ReLU",
    "mm": "matrix products",
    "addmm": "matrix products",
    "bmm": "matrix products",
    "_fused_adam_": "Adam",
    "Optimizer.step#Adam.step": "Adam",
}
STEPS = 30


def main() -> None:
    """Profile some steps of each shape and print fractions of the time."""
    from narrows._util.allocator import keep_memory

    keep_memory()
    from torch.profiler import ProfilerActivity, profile

    for label, shape in SHAPES.items():
        step = ours(Subject("settled", shape))
        for _ in range(5):
            step()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            for _ in range(STEPS):
                step()
        times: dict[str, float] = defaultdict(float)
        calls = 0
        for event in profiled.key_averages():
            name = event.key.removeprefix("aten::")
            times[KINDS.get(name, "all the rest")] += event.self_cpu_time_total / STEPS / 1e3
            calls += event.count if event.key.startswith("aten::") else 0
        total = sum(times.values())
        print(f"\n### {label}: {total:.1f} ms a step under the profiler, {calls // STEPS} operations\n")
        print("| kind | ms | share |\n|---|---|---|")
        for kind, ms in sorted(times.items(), key=lambda item: -item[1]):
            print(f"| {kind} | {ms:.1f} | {ms / total:.0%} |")


if __name__ == "__main__":
    main()
