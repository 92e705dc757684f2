"""How the time of a call on a GPU is measured; needs torch, and neither this package nor another of its name."""

import statistics

FLUSH_BYTES = 256 << 20  # several times any L2
_SLEEP_CYCLES = 1 << 21  # about a millisecond: a host that is not busy enqueues some dozen calls
_LONGEST_SLEEP = 1 << 27


def device_ms(torch, flush, call, repeats: int) -> float:
    """The median device time of a call whose data is not in L2, which `flush`, a tensor of `FLUSH_BYTES`, fills.

    The device sleeps until the host has enqueued all calls and events: otherwise the time of a short call would be that
    which a busy host takes to launch it. Times taken after too short a sleep are dropped, unless no sleep is long
    enough, since the call itself waits for the device.
    """
    cycles = _SLEEP_CYCLES
    while True:
        torch.cuda._sleep(cycles)
        times = []
        for _ in range(repeats):
            flush.zero_()
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            stop.record()
            times.append((start, stop))
        is_late = times[0][0].query()  # the device has come to the first call
        torch.cuda.synchronize()
        if not is_late or cycles >= _LONGEST_SLEEP:
            return statistics.median(a.elapsed_time(b) for a, b in times)
        cycles *= 4
