package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/bench/paired"
)

// row is one measurement, or why there is none.
type row struct {
	Part      string `json:"part"`
	Name      string `json:"name"`
	Side      string `json:"side"`
	Precision string `json:"precision"`
	Batch     int    `json:"batch,omitempty"`
	Fault     *fault `json:"error,omitempty"`

	// Of kernels.
	Times *times        `json:"times,omitempty"`
	Rows  int           `json:"rows,omitempty"`
	Share *paired.Ratio `json:"share,omitempty"` // of the nearer of the ceilings of operations and of bytes
	Of    string        `json:"of,omitempty"`    // that ceiling

	// Of networks.
	Ready     *ready                  `json:"ready,omitempty"`
	RunMS     []float64               `json:"run_ms,omitempty"` // the median of every turn
	Memory    int64                   `json:"memory_bytes,omitempty"`
	Agreement *agreement              `json:"agreement,omitempty"`
	Ratio     map[string]paired.Ratio `json:"ratio,omitempty"` // to the rivals, by name
}

// median returns the median seconds of a kernel, or milliseconds of a network.
func (r *row) median() float64 {
	list := r.RunMS
	if r.Times != nil {
		list = r.Times.Seconds
	}
	return paired.Median(append([]float64(nil), list...))
}

// head names what is measured.
func (r *row) head() string {
	name := r.Name
	if r.Batch > 0 {
		name += fmt.Sprintf(" @%d", r.Batch)
	}
	return fmt.Sprintf("%-12s %-4s %-34s %-16s", r.Part, r.Precision, name, r.Side)
}

// String is a line of the table.
func (r *row) String() string {
	switch {
	case r.Fault != nil:
		return fmt.Sprintf("%s %s", r.head(), r.Fault)
	case r.Times != nil:
		return r.head() + r.kernel()
	}
	return r.head() + r.network()
}

func (r *row) kernel() string {
	s, t := fmt.Sprintf(" %10.1f µs", r.median()*1e6), r.Times
	if t.Operations > 0 {
		s += fmt.Sprintf(" %8.2f TFLOP/s", t.Operations/r.median()/1e12)
	}
	if t.Bytes > 0 {
		s += fmt.Sprintf(" %6.3f TB/s", t.Bytes/r.median()/1e12)
	}
	if r.Share != nil {
		s += fmt.Sprintf("  %v of %s", *r.Share, r.Of)
	}
	if t.Off > 0 {
		s += fmt.Sprintf("  off %.1e", t.Off)
	}
	if t.Kernels > 1 {
		s += fmt.Sprintf("  %d kernels", t.Kernels)
	}
	if t.Tile != "" {
		s += "  " + t.Tile
	}
	return s
}

func (r *row) network() string {
	s := fmt.Sprintf(" %9.3f ms", r.median())
	for _, name := range sortedKeys(r.Ratio) {
		s += fmt.Sprintf("  %v of %s", r.Ratio[name], name)
	}
	if r.Memory > 0 {
		s += fmt.Sprintf("  %d MiB", r.Memory>>20)
	}
	if r.Agreement != nil {
		s += fmt.Sprintf("  off %.1e, %.1e σ", r.Agreement.Relative, r.Agreement.Sigma)
	}
	y := r.Ready
	s += fmt.Sprintf("  created and first run in %.1f s", (y.CreateMS+y.FirstMS)/1e3)
	if y.HostMS > 0 {
		s += fmt.Sprintf("  %.3f ms from the host", y.HostMS)
	}
	if len(y.Calls) > 0 {
		s += "  a run: " + summed(y.Calls)
	}
	if len(y.HostCall) > 0 {
		s += "  from the host: " + summed(y.HostCall)
	}
	if y.Groups > 0 {
		s += fmt.Sprintf("  %d groups, %d nodes elsewhere", y.Groups, y.Outside)
	}
	if len(y.Used) > 0 {
		s += "  by " + strings.Join(y.Used, ", ")
	}
	if y.Note != "" {
		s += "  " + y.Note
	}
	return s
}

// Calls of drivers, by what they do.
var callKinds = []struct{ what, names string }{
	{"graphs", "cuGraphLaunch clEnqueueCommandBufferKHR"},
	{"launches", "cuLaunchKernel clEnqueueNDRangeKernel"},
	{"copies to", "cuMemcpyHtoDAsync_v2 clEnqueueWriteBuffer"},
	{"copies from", "cuMemcpyDtoHAsync_v2 clEnqueueReadBuffer"},
	{"copies within", "cuMemcpyDtoDAsync_v2 clEnqueueCopyBuffer"},
}

// made returns how many calls of a kind there are.
func made(calls map[string]int, what string) (n int) {
	for _, k := range callKinds {
		if k.what == what {
			for _, name := range strings.Fields(k.names) {
				n += calls[name]
			}
		}
	}
	return n
}

// summed says what a run's calls do.
func summed(calls map[string]int) string {
	var list []string
	for _, k := range callKinds {
		if n := made(calls, k.what); n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, k.what))
		}
	}
	return strings.Join(list, ", ")
}
