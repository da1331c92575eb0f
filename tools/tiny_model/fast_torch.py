# To be imported before torch: one thread for each process, and the widest vectors that the processor has.
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
with open("/proc/cpuinfo", encoding="utf-8") as about:
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= set(about.read().split()):
        os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx512")   # PyTorch takes AVX2 unasked: a third slower here
