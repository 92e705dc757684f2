"""How the time of a call on a GPU is measured; needs torch, and neither this package nor another of its name."""

import statistics

FLUSH_BYTES = 256 << 20  # several times any L2


def device_ms(torch, flush, call, repeats: int) -> float:
    """The median device time of a call whose data is not in L2, which `flush`, a tensor of `FLUSH_BYTES`, fills."""
    times = []
    for _ in range(repeats):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        times.append((start, stop))
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in times)
