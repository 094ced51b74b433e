package fake

import (
	"fmt"
	"maps"
	"slices"
)

// Stats counts what was done with a backend's devices.
type Stats struct {
	Launches      int   // runs of groups that were queued
	Runs          int   // of these, what has begun
	CopiesTo      int   // from the host
	CopiesFrom    int   // to the host
	CopiesBetween int   // from device to device
	CopiesAcross  int   // of these, from one device to another
	Waits         int   // times that the host waited for something that had not happened
	Allocs        int   // blocks
	Held, Peak    int64 // bytes of device memory
}

// Stats returns the counts so far.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

func (m *machine) note(f func(*Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.stats)
}

func (m *machine) count(what string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[what] += n
}

// Faults returns what the user of the devices did wrong, at most 100 of them.
func (b *Backend) Faults() []string {
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	return slices.Clone(b.watch.faults)
}

// Leaks returns what was not given back: blocks, streams, events, executables.
func (b *Backend) Leaks() []string {
	var list []string
	for _, d := range b.devices {
		d.mu.Lock()
		if len(d.blocks) > 0 {
			list = append(list, fmt.Sprintf("%d blocks of %v, %d bytes", len(d.blocks), d.id, d.held))
		}
		d.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(b.open)) {
		if n := b.open[what]; n != 0 {
			list = append(list, fmt.Sprintf("%d %s", n, what))
		}
	}
	return list
}
