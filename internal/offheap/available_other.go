//go:build !darwin && !linux && !windows

package offheap

func available() int64 { return mostMemory }
