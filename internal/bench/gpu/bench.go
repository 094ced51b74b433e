package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvidia"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

// bench is the process that measures kernels, and what all its measurements share.
type bench struct {
	*driver
	settings     *settings
	compiler     *nvrtc.Library
	products     *nvidia.Products
	convolutions *nvidia.Convolutions
	why          map[string]error // why there is no library of a name
	versions     map[string]string
	timer        *timer
	device       gpukernel.Device
	random       *rand.Rand
}

// newBench opens the driver, and what there is of libraries. The calling goroutine stays on its thread.
func newBench(s *settings) (*bench, error) {
	runtime.LockOSThread()
	d, err := openDriver(s.Driver)
	if err != nil {
		return nil, err
	}
	t, err := d.newTimer()
	if err != nil {
		return nil, err
	}
	b := &bench{driver: d, settings: s, timer: t, device: gpukernel.NVIDIA(d.capability, d.processors), random: rand.New(rand.NewPCG(1, 2)),
		why: map[string]error{}, versions: map[string]string{}}
	var why error
	if b.compiler, why = nvrtc.Open(s.NVRTC); why == nil {
		b.versions[compilerName] = fmt.Sprintf("%d.%d", b.compiler.Major, b.compiler.Minor)
	}
	b.why[compilerName] = why
	blas, why := nvidia.OpenBLAS(s.CUBLAS, d.version)
	if why == nil {
		b.versions[blasName] = blas.String()
		b.products, why = blas.Products()
	}
	b.why[blasName] = why
	dnn, why := nvidia.OpenDNN(s.CUDNN)
	if why == nil {
		b.versions[dnnName] = dnn.String()
		b.convolutions, why = dnn.Convolutions()
	}
	b.why[dnnName] = why
	return b, nil
}

// Names of NVIDIA's libraries.
const (
	compilerName = "NVRTC"
	blasName     = "cuBLASLt"
	dnnName      = "cuDNN"
)

// facts are what the device is, and which libraries there are.
func (b *bench) facts() (*facts, error) {
	_, total, err := b.memory()
	f := &facts{Name: b.name, Capability: b.capability, Processors: b.processors, Driver: b.version, Memory: total, ClockKHz: b.attribute(13),
		Libraries: map[string]string{}}
	for name, why := range b.why {
		if f.Libraries[name] = b.versions[name]; why != nil {
			f.Libraries[name] = "not used: " + why.Error()
		}
	}
	return f, err
}

// compile compiles the kernels of a plan, all processors of the host at once.
func (b *bench) compile(p *gpukernel.Plan) (map[*gpukernel.Kernel][]byte, error) {
	if b.compiler == nil {
		return nil, b.why[compilerName]
	}
	type result struct {
		kernel *gpukernel.Kernel
		binary []byte
		err    error
	}
	results, binaries := make(chan result), map[*gpukernel.Kernel][]byte{}
	n := 0
	for _, l := range p.Launches {
		if _, begun := binaries[l.Kernel]; begun {
			continue
		}
		binaries[l.Kernel] = nil
		n++
		go func() {
			binary, _, err := b.compiler.Compile(gpukernel.Source(gpukernel.CUDA, l.Kernel), fmt.Sprintf("sm_%d", b.capability))
			results <- result{l.Kernel, binary, err}
		}()
	}
	var first error
	for range n {
		r := <-results
		if r.err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", r.kernel.Name, r.err))
		}
		binaries[r.kernel] = r.binary
	}
	return binaries, first
}

// replays is how often a graph is replayed: by the rule of comparison, a share wants as many.
const replays = 15

// measure returns the seconds that one round of work takes on the device, by replay: rounds are recorded as a graph, so that launching
// costs nothing, and the graph is replayed.
func (b *bench) measure(work func() error) ([]float64, error) {
	if err := work(); err != nil { // whatever a first call does
		return nil, err
	}
	once, err := b.time(b.timer, work)
	if err != nil {
		return nil, err
	}
	rounds := max(1, min(50, int(b.settings.Seconds/replays/max(once, 1e-7))))
	g, err := b.record(func() error {
		for range rounds {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []float64
	for i := range 1 + replays { // the first uploads the graph
		t, err := b.time(b.timer, func() error { return b.call("cuGraphLaunch", g, b.stream) })
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = append(list, t/float64(rounds))
		}
	}
	return list, b.call("cuGraphExecDestroy", g)
}

// fill returns a buffer of n random elements in [-1, 1), and what is in it.
func (b *bench) fill(t gpukernel.Type, n int) (uintptr, []byte, error) {
	const period = 1 << 20 // further elements repeat, from another place each time
	pattern := make([]byte, 0, min(n, period)*t.Size())
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

// written reports whether an element is no NaN, as poison leaves it, without a conversion.
func written(b []byte, t gpukernel.Type, i int) bool {
	if t.Size() == 2 {
		return b[2*i] != 0xff || b[2*i+1] != 0xff
	}
	return b[4*i] != 0xff || b[4*i+1] != 0xff || b[4*i+2] != 0xff || b[4*i+3] != 0xff
}
