"""The Node kernel: `companion` (PID 1's side) and the kernel itself in JavaScript (`kernel.cjs` and what it loads)."""
