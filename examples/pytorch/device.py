"""The devices that run the steps: their memory in use, by the driver's count, and times of steps on them."""

import ctypes
import itertools
import threading
import time

import torch

# Seconds between two looks at the memory.
INTERVAL = 0.005


class NvmlMemory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def nvml_reader(index):
    """Returns a function that reads the bytes in use by NVML. NVML makes no CUDA calls, so it may run in a capture."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2():
        raise OSError("nvmlInit failed")
    handle = ctypes.c_void_p()
    uuid = f"GPU-{torch.cuda.get_device_properties(index).uuid}"
    if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        raise OSError(f"NVML knows no device {uuid}")

    def used():
        memory = NvmlMemory()
        if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
            raise OSError("nvmlDeviceGetMemoryInfo failed")
        return memory.used

    used()
    return used


class Cuda:
    """A GPU. Memory in use is that of the whole device, so nothing else may run there."""

    def __init__(self):
        self.index = torch.cuda.current_device()
        try:
            self.used, self.memory_source = nvml_reader(self.index), "NVML"
        except (OSError, AttributeError) as error:
            self.used, self.memory_source = self.cuda_used, f"cudaMemGetInfo (no NVML: {error})"

    def cuda_used(self):
        free, total = torch.cuda.mem_get_info(self.index)
        return total - free

    def facts(self):
        properties = torch.cuda.get_device_properties(self.index)
        return {"gpu": properties.name, "uuid": str(properties.uuid), "cudnn": torch.backends.cudnn.version(),
                "memory_source": self.memory_source}  # fmt: skip

    def wait(self):
        torch.cuda.synchronize()

    def release(self):
        torch.cuda.empty_cache()

    def times(self, step, count):
        """Milliseconds of each of `count` steps, which are launched in a row, with one wait at the end."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        self.wait()
        return [a.elapsed_time(b) for a, b in itertools.pairwise(marks)]


class Cpu:
    """The CPU, for trying the scripts without a GPU: it has no device memory."""

    used = None

    def facts(self):
        return {"gpu": "CPU", "uuid": "cpu", "cudnn": torch.backends.cudnn.version(), "memory_source": None}

    def wait(self):
        pass

    def release(self):
        pass

    def times(self, step, count):
        marks = [time.perf_counter()]
        for _ in range(count):
            step()
            marks.append(time.perf_counter())
        return [1e3 * (b - a) for a, b in itertools.pairwise(marks)]


class Watch:
    """`with Watch(device) as watch`: the most bytes in use within, which a thread reads every INTERVAL.

    Without NVML it reads only at the begin and the end: CUDA calls of another thread may end a capture.
    """

    def __init__(self, device):
        self.device = device
        self.peak = None

    def look(self):
        self.peak = max(self.peak or 0, self.device.used())

    def poll(self):
        while not self.ended.wait(INTERVAL):
            self.look()

    def __enter__(self):
        if self.device.used:
            self.ended = threading.Event()
            self.look()
            self.thread = threading.Thread(target=self.poll, daemon=True)
            if self.device.memory_source == "NVML":
                self.thread.start()
        return self

    def __exit__(self, *_):
        if self.device.used:
            self.device.wait()
            self.ended.set()
            if self.thread.is_alive():
                self.thread.join()
            self.look()
