#!/usr/bin/env python3
"""Times of causal attention through PyTorch, as lines of moeplan-device (docs/calibration.md).

moeplan-device links no library of attention; training runs call FlashAttention or cuDNN through PyTorch, so that is
what is timed here, where PyTorch is installed: forward, and backward alone, with random bf16 data.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {"flash-attn": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SHAPES = [(batch, heads, kv, seq, dim)
          for seq in (512, 1024, 2048, 4096, 8192, 16384)
          for batch, heads, kv, dim in ((1, 32, 8, 128), (4, 32, 8, 128), (1, 16, 16, 64), (4, 64, 8, 64), (1, 8, 1, 128))]
FEWEST, MOST, MOST_SECONDS = 20, 100, 0.3  # samples of one shape


def driver():
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, check=True)
        return said.stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def sample(enqueue, repetitions):
    """Microseconds of one repetition."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repetitions):
        enqueue()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / repetitions


def timed(enqueue):
    for _ in range(3):
        enqueue()
    each = sample(enqueue, 3)
    repetitions = max(1, min(20, int(2000 / max(each, 1))))
    samples, until = [], time.monotonic() + MOST_SECONDS
    while len(samples) < FEWEST or (len(samples) < MOST and time.monotonic() < until):
        samples.append(sample(enqueue, repetitions))
    return samples, repetitions


def measure(shape, backend, write):
    batch, heads, kv, seq, dim = shape
    query = torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    key = torch.randn(batch, kv, seq, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    value = torch.randn_like(key, requires_grad=True)
    operands = (query, key, value)
    with sdpa_kernel(BACKENDS[backend]):
        def forward():
            return scaled_dot_product_attention(*operands, is_causal=True, enable_gqa=heads != kv)

        result = forward()
        gradient = torch.randn_like(result)

        def backward():
            torch.autograd.grad(result, operands, gradient, retain_graph=True)

        for direction, enqueue in (("fwd", forward), ("bwd", backward)):
            samples, repetitions = timed(enqueue)
            write("measurement", op="attention", direction=direction, dtype="bf16", batch=batch, heads=heads,
                  kv_heads=kv, seqlen=seq, head_dim=dim, causal=1, library=f"{backend} of PyTorch {torch.__version__}",
                  time_us=statistics.median(samples), repetitions=repetitions, graph=False,
                  samples_us=[round(s, 3) for s in samples])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="-", help="file of the lines (standard output)")
    parser.add_argument("--seconds", type=float, default=60, help="time for all shapes together (60)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU that PyTorch sees: nothing was measured", file=sys.stderr)
        return 77
    out = sys.stdout if arguments.output == "-" else open(arguments.output, "w", encoding="utf-8")
    common = {"program": "attention.py 1", "gpu": torch.cuda.get_device_name(0), "driver": driver(),
              "cuda": torch.version.cuda}
    lines = 0

    def write(record, **fields):
        nonlocal lines
        print(json.dumps({"schema": "moeplan.device/1", "record": record, **common, **fields}), file=out, flush=True)
        lines += 1

    write("device", date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    until = time.monotonic() + arguments.seconds
    left_out = 0
    for shape in SHAPES:
        for backend in BACKENDS:
            if time.monotonic() > until:
                left_out += 1
                continue
            try:
                measure(shape, backend, write)
            except RuntimeError as error:  # no kernel of that library for the shape, or too little memory
                write("left_out", what=f"attention {backend} {shape}", why=str(error).splitlines()[0])
    if left_out:
        write("left_out", what=f"{left_out} calls of attention", why="the time was used up")
    write("end", lines=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
