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

// side returns one that moves as many bytes as a model in a loop does, where those are then, in so many parts: what is written is copied as far as so much is
// read, and set to zero behind that; what is read beyond is two halves that are compared. The function frees its memory.
func (t traffic) side(o *options, parts int) (*side, func(), error) {
	var moves []func()
	var memory []*offheap.Block
	free := func() {
		for _, b := range memory {
			_ = b.Free()
		}
	}
	block := func(bytes float64) ([]byte, error) {
		n := int(bytes) / parts
		b, err := offheap.Alloc(max(n, 64), 64)
		if err != nil {
			return nil, err
		}
		memory = append(memory, b)
		clear(b.Bytes())
		return b.Bytes()[:n], nil
	}
	for range parts {
		in, err := block(t.read)
		if err != nil {
			return nil, free, err
		}
		out, err := block(t.written)
		if err != nil {
			return nil, free, err
		}
		moves = append(moves, func() {
			n := copy(out, in)
			clear(out[n:])
			rest := in[n:]
			half := len(rest) / 2
			_ = bytes.Equal(rest[:half], rest[half:])
		})
	}
	return &side{run: func(n int) (time.Duration, error) {
		return o.timed(func() error {
			for range n {
				for _, move := range moves {
					move()
				}
			}
			return nil
		})
	}}, free, nil
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
