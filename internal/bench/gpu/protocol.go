package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

// A measurement is done by a process of its own, so that a device that is lost, or a crash, ends nothing but that. It reads requests,
// lines of JSON, and answers each with a line. Processes of rivals are written in Python and speak the same.

// request is what a process is asked for.
type request struct {
	Op      string   `json:"op"`
	Task    string   `json:"task,omitempty"`
	Load    *loading `json:"load,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
}

// loading says which network is made ready.
type loading struct {
	Path      string            `json:"path"`
	Feeds     string            `json:"feeds"` // folder of NAME.npy
	Out       string            `json:"out"`   // folder that results are written to, as NAME.npy
	Backend   string            `json:"backend,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	Dims      map[string]int    `json:"dims,omitempty"`
	Precision string            `json:"precision"`
	Mode      string            `json:"mode,omitempty"` // of rivals
	Device    string            `json:"device,omitempty"`
}

// answer is what a process says, those fields that the request asks for.
type answer struct {
	Fault *fault `json:"error,omitempty"`

	Facts *facts     `json:"facts,omitempty"`
	Tasks []taskName `json:"tasks,omitempty"`
	Bytes int64      `json:"bytes,omitempty"` // of the device's memory that is free

	Times *times `json:"times,omitempty"`

	Ready *ready    `json:"ready,omitempty"`
	RunMS []float64 `json:"run_ms,omitempty"`
}

// facts are what a device is, and what was found to drive it.
type facts struct {
	Name       string            `json:"name"`
	Capability int               `json:"capability"`
	Processors int               `json:"processors"`
	Driver     int               `json:"driver"`
	Memory     int64             `json:"memory_bytes"`
	ClockKHz   int               `json:"clock_khz"`
	Libraries  map[string]string `json:"libraries"` // versions, or why one is not there
}

// taskName is a measurement of a kernel.
type taskName struct {
	Part      string  `json:"part"`
	Name      string  `json:"name"`
	Side      string  `json:"side"` // carve, or the library that does it
	Precision string  `json:"precision"`
	Rows      int     `json:"rows,omitempty"` // of a product
	Rank      float64 `json:"rank"`           // lower ones are more valuable
}

func (t taskName) String() string { return t.Part + " " + t.Precision + " " + t.Name + " " + t.Side }

// times are what a kernel's work took, by replay of a graph.
type times struct {
	Seconds    []float64 `json:"seconds"`
	Operations float64   `json:"operations"` // 0 where the measure is bytes
	Bytes      float64   `json:"bytes"`      // read and written at least
	Off        float64   `json:"off"`        // ‖result − float64‖ / ‖float64‖
	Kernels    int       `json:"kernels"`
	Tile       string    `json:"tile,omitempty"`
}

// ready is what it took to make a network ready, and what a run of it does.
type ready struct {
	Version  string         `json:"version,omitempty"`
	CreateMS float64        `json:"create_ms"`
	FirstMS  float64        `json:"first_ms"` // of the first run alone
	HostMS   float64        `json:"host_ms,omitempty"`
	Arena    int64          `json:"arena_bytes,omitempty"`
	Calls    map[string]int `json:"calls,omitempty"`      // of the driver in a run whose operands lie on the device
	HostCall map[string]int `json:"host_calls,omitempty"` // the same where they lie on the host
	Groups   int            `json:"groups,omitempty"`
	Outside  int            `json:"outside,omitempty"` // nodes that another backend runs
	Used     []string       `json:"libraries,omitempty"`
	Note     string         `json:"note,omitempty"`
}

// Kinds of faults.
const (
	absent      = "absent"      // what it needs is not on this machine
	unsupported = "unsupported" // nothing does it
	compiling   = "compile"     // a kernel or a program did not compile
	memory      = "memory"      // out of memory
	lost        = "lost"        // the device works no more in that process
	wrong       = "wrong"       // the result is not what float64 gives
	timeout     = "timeout"     // the process did not answer in time, and was ended
	died        = "died"        // the process ended
	left        = "left"        // the command's time was up
	failed      = "failed"      // anything else
)

// fault says why there is no measurement.
type fault struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Error implements error.
func (f *fault) Error() string {
	return f.Kind + ": " + strings.Join(strings.Fields(f.Text), " ")
}

// faultOf returns an error as a fault, nil for none.
func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	kind := failed
	var compiler *nvrtc.Error
	var call *driverError
	switch {
	case errors.Is(err, backend.ErrUnavailable), errors.Is(err, dl.ErrOpen), errors.Is(err, dl.ErrSymbol), errors.Is(err, dl.ErrUnsupported):
		kind = absent
	case errors.Is(err, gpukernel.ErrUnsupported):
		kind = unsupported
	case errors.As(err, &compiler), errors.Is(err, cuda.ErrBuild):
		kind = compiling
	case errors.Is(err, device.ErrOutOfMemory):
		kind = memory
	case errors.Is(err, device.ErrGone):
		kind = lost
	case errors.Is(err, context.DeadlineExceeded):
		kind = timeout
	case errors.As(err, &call):
		kind = call.kind()
	}
	return &fault{kind, fmt.Sprintf("%.600s", err.Error())}
}
