package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/offheap"
)

// Shares of the machine's limits that count as reaching them.
const (
	peakReached   = 0.92
	memoryReached = 0.90
	algorithm     = 1.05 // a share of the peak above this is of an algorithm with fewer multiply-adds, and says nothing of the limit
)

// traffic is the bytes that the nodes of a model read and write, each value once by each of its readers; or those of its operands and results alone.
type traffic struct{ read, written float64 }

func trafficOf(g *graph.Graph, outer bool) (t traffic, err error) {
	size := func(v *graph.Value) float64 {
		dims, ok := v.Type.Shape.Static()
		if !ok {
			err = fmt.Errorf("%v is %v", v, v.Type)
		}
		n := 4.0
		for _, d := range dims {
			n *= float64(d)
		}
		return n
	}
	if outer {
		for _, v := range g.Inputs {
			t.read += size(v)
		}
		for _, v := range g.Outputs {
			t.written += size(v)
		}
		return t, err
	}
	for n := range g.Nodes() {
		for _, v := range n.Inputs {
			t.read += size(v)
		}
		for _, v := range n.Outputs {
			t.written += size(v)
		}
	}
	return t, err
}

// rate returns how many GB/s the processor moves where so many bytes are read and written again and again, which are then where
// those of a model in a loop are: of a copy, or, where less than a quarter is written, of a comparison of two halves. It is the best of
// some tries.
func (t traffic) rate() (float64, error) {
	half := max(int(t.read+t.written)/2, 4<<10)
	var block [2][]byte
	for i := range block {
		b, err := offheap.Alloc(half, 64)
		if err != nil {
			return 0, err
		}
		defer func() { _ = b.Free() }()
		block[i] = b.Bytes()
		clear(block[i])
	}
	move := func() { copy(block[0], block[1]) }
	if 4*t.written < t.read+t.written {
		move = func() { _ = bytes.Equal(block[0], block[1]) }
	}
	best := 0.0
	for begin := time.Now(); time.Since(begin) < 10*time.Millisecond; {
		start, n := time.Now(), 1+(64<<10)/half
		for range n {
			move()
		}
		best = max(best, float64(2*half*n)/float64(time.Since(start).Nanoseconds()))
	}
	return best, nil
}

// limits are the shares of the machine's limits that a row reaches.
type limits struct{ peak, memory float64 }

// reached names the limit that a row reaches, "" for none.
func (l limits) reached() string {
	switch {
	case l.peak >= peakReached && l.peak <= algorithm:
		return "multiply-adds"
	case l.memory >= memoryReached:
		return "bytes"
	}
	return ""
}

// met judges a row by the rule of comparison: no interval lies above 1 as a whole, or a limit of the machine is reached, which it names.
func (l limits) met(ratios []paired.Ratio) string {
	for _, r := range ratios {
		if r.Low <= 1 {
			continue
		}
		if by := l.reached(); by != "" {
			return "yes, " + by
		}
		return "no"
	}
	return "yes"
}

// peaksOf reads a table that print wrote: the shares of the peak by the names of rows.
func peaksOf(table string) map[string]paired.Ratio {
	shares := map[string]paired.Ratio{}
	for line := range strings.Lines(table) {
		var r paired.Ratio
		if cells := strings.Split(line, " | "); len(cells) > 3 {
			if n, _ := fmt.Sscanf(cells[2], "%f (%f–%f)", &r.Median, &r.Low, &r.High); n == 3 {
				shares[strings.TrimPrefix(cells[0], "| ")] = r
			}
		}
	}
	return shares
}

// Of the multiply-adds, in percent, a set of narrower vectors is to reach narrower where the widest reaches wide.
const (
	wide     = 90
	narrower = 85
)

// behind lists the rows of which a set makes a smaller share of its multiply-adds than it is to, given what the widest set makes.
func behind(widest, set map[string]paired.Ratio) (list []string) {
	for name, share := range widest {
		if own, ok := set[name]; ok && share.Median >= wide && own.High < narrower {
			list = append(list, fmt.Sprintf("%s (%.0f, %.0f)", name, own.Median, share.Median))
		}
	}
	slices.Sort(list)
	return list
}
