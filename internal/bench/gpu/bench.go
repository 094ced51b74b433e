package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

// bench holds what all measurements share.
type bench struct {
	*driver
	compiler          *nvrtc.Library
	blas              *blas // nil where not found
	timer             *timer
	device            gpukernel.Device
	random            *rand.Rand
	budget            float64 // seconds of device time a measurement may take, about
	binaries          map[*gpukernel.Kernel][]byte
	copyRate, fmaRate float64 // bytes and operations a second, measured
}

// arch is the architecture that kernels are compiled for.
func (b *bench) arch(*gpukernel.Kernel) string { return fmt.Sprintf("sm_%d", b.capability) }

// compile compiles the kernels of plans, all processors of the host at once.
func (b *bench) compile(plans []*gpukernel.Plan) error {
	type result struct {
		kernel *gpukernel.Kernel
		binary []byte
		err    error
	}
	results, n := make(chan result), 0
	room := make(chan struct{}, runtime.NumCPU())
	started := map[*gpukernel.Kernel]bool{}
	for _, p := range plans {
		for _, l := range p.Launches {
			if started[l.Kernel] || b.binaries[l.Kernel] != nil {
				continue
			}
			started[l.Kernel] = true
			n++
			go func() {
				room <- struct{}{}
				binary, _, err := b.compiler.Compile(gpukernel.Source(gpukernel.CUDA, l.Kernel), b.arch(l.Kernel))
				<-room
				results <- result{l.Kernel, binary, err}
			}()
		}
	}
	var first error
	for range n {
		r := <-results
		if r.err != nil && first == nil {
			first = fmt.Errorf("%s: %w", r.kernel.Name, r.err)
		}
		b.binaries[r.kernel] = r.binary
	}
	return first
}

// steps compiles a plan and binds it to buffers; scratch buffers are allocated.
func (b *bench) steps(p *gpukernel.Plan, buffers map[string]uintptr) ([]*step, error) {
	for _, s := range p.Scratch {
		if buffers[s.Buffer] == 0 {
			at, err := b.alloc(s.Bytes)
			if err != nil {
				return nil, err
			}
			buffers[s.Buffer] = at
		}
	}
	if err := b.compile([]*gpukernel.Plan{p}); err != nil {
		return nil, err
	}
	var list []*step
	functions := map[*gpukernel.Kernel]uintptr{}
	for _, l := range p.Launches {
		f, ok := functions[l.Kernel]
		if !ok {
			var err error
			if f, err = b.load(b.binaries[l.Kernel], l.Kernel); err != nil {
				return nil, fmt.Errorf("%s: %w", l.Kernel.Name, err)
			}
			functions[l.Kernel] = f
		}
		list = append(list, newStep(f, l, buffers))
	}
	return list, nil
}

// measure returns the median of the seconds that one round of work takes on the device: rounds are recorded as a graph, so
// that launching costs nothing, and the graph is replayed.
func (b *bench) measure(work func() error) (float64, error) {
	if err := work(); err != nil { // loads modules, and whatever else a first call does
		return 0, err
	}
	once, err := b.time(b.timer, work)
	if err != nil {
		return 0, err
	}
	rounds := max(1, min(50, int(b.budget/8/once)))
	g, err := b.record(func() error {
		for range rounds {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var times []float64
	for range 7 {
		t, err := b.time(b.timer, func() error { return b.call("cuGraphLaunch", uintptr(g), b.stream) })
		if err != nil {
			return 0, err
		}
		times = append(times, t/float64(rounds))
	}
	slices.Sort(times)
	return times[len(times)/2], b.call("cuGraphExecDestroy", uintptr(g))
}

// fill returns a buffer of n random elements in [-1, 1), and the first values of it.
func (b *bench) fill(t gpukernel.Type, n int) (uintptr, []byte, error) {
	const period = 1 << 20 // further elements repeat, from another place each time
	pattern := make([]byte, 0, period*t.Size())
	for range min(n, period) {
		pattern = encode(pattern, t, b.random.Float64()*2-1)
	}
	data := make([]byte, n*t.Size())
	for at := 0; at < len(data); {
		skip := 0
		if at > 0 {
			skip = b.random.IntN(len(pattern)/t.Size()/2) * t.Size()
		}
		at += copy(data[at:], pattern[skip:])
	}
	p, err := b.upload(data)
	return p, data, err
}

func encode(b []byte, t gpukernel.Type, v float64) []byte {
	switch t {
	case gpukernel.F16:
		h := tensor.Float32ToFloat16(float32(v))
		return append(b, byte(h), byte(h>>8))
	case gpukernel.BF16:
		h := tensor.Float32ToBFloat16(float32(v))
		return append(b, byte(h), byte(h>>8))
	}
	u := math.Float32bits(float32(v))
	return append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
}

func element(b []byte, t gpukernel.Type, i int) float64 {
	switch t {
	case gpukernel.F16:
		return float64(tensor.Float16ToFloat32(uint16(b[2*i]) | uint16(b[2*i+1])<<8))
	case gpukernel.BF16:
		return float64(tensor.BFloat16ToFloat32(uint16(b[2*i]) | uint16(b[2*i+1])<<8))
	}
	return float64(math.Float32frombits(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24))
}

// poison fills device memory with NaNs.
func (b *bench) poison(p uintptr, n int64) error {
	return b.call("cuMemsetD8Async", p, 0xff, uintptr(n), b.stream)
}
