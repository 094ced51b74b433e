package offheap

import (
	"bytes"
	"os"
	"strconv"
)

// available reads MemAvailable and SwapFree of /proc/meminfo, and the control group's limit.
func available() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return mostMemory
	}
	left, known := int64(0), false
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		if name := string(f[0]); name == "MemAvailable:" || name == "SwapFree:" {
			if kb, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				left, known = left+kb<<10, true
			}
		}
	}
	if !known {
		return mostMemory
	}
	most, ok1 := groupBytes("memory.max")
	used, ok2 := groupBytes("memory.current")
	if ok1 && ok2 {
		left = min(left, max(most-used, 0)+reclaimable())
	}
	return left
}

// groupBytes reads a number of the control group that a container sees as its root; "max" is none.
func groupBytes(name string) (int64, bool) {
	b, err := os.ReadFile("/sys/fs/cgroup/" + name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil
}

// reclaimable returns the bytes of files in memory that count as the group's and that it would give up.
func reclaimable() int64 {
	b, err := os.ReadFile("/sys/fs/cgroup/memory.stat")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("file ")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return n
		}
	}
	return 0
}
