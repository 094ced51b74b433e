package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// operand is a buffer of random elements.
type operand struct {
	typ   gpukernel.Type
	count int
}

// task is something to measure: its inputs and its one result, and who does it.
type task struct {
	taskName
	// plan returns our kernels; nil where a library does it.
	plan func() (*gpukernel.Plan, error)
	// library returns what a library does, and how much memory it needs beside.
	library func() (run libraryRun, workspace int64, done func(), err error)
	// copies says that the task is a copy of the driver's from its first input to the result.
	copies string

	inputs     map[string]operand
	result     string
	out        operand
	operations float64 // 0 where the measure is bytes
	bytes      float64 // read and written at least
	tolerance  float64
	tile       string
	// want returns element i of the result, in float64; nil where nothing is compared.
	want func(in map[string][]byte, i int) float64
}

// libraryRun queues work of a library's on buffers.
type libraryRun func(stream uintptr, buffers map[string]uintptr, workspace uintptr) error

// work is a task that is ready on the device.
type work struct {
	run     func() error
	kernels int
	buffers map[string]uintptr
	modules []uintptr
	done    func()
}

func (w *work) close(b *bench) {
	if w.done != nil {
		w.done()
	}
	for _, p := range w.buffers {
		b.free(p)
	}
	for _, m := range w.modules {
		_ = b.call("cuModuleUnload", m) // a fault shows at the next call
	}
}

// run measures a task, and compares its result.
func (t *task) run(b *bench) (*times, error) {
	w := &work{buffers: map[string]uintptr{}}
	defer w.close(b)
	if err := t.start(b, w); err != nil {
		return nil, err
	}
	host := map[string][]byte{}
	for name, o := range t.inputs {
		var err error
		if w.buffers[name], host[name], err = b.fill(o.typ, o.count); err != nil {
			return nil, err
		}
	}
	bytes := int64(t.out.count) * int64(t.out.typ.Size())
	var err error
	if w.buffers[t.result], err = b.alloc(bytes); err != nil {
		return nil, err
	}
	if err := t.prepare(b, w); err != nil {
		return nil, err
	}
	off, err := t.check(b, w, bytes, host)
	if err != nil {
		return nil, err
	}
	seconds, err := b.measure(w.run)
	return &times{Seconds: seconds, Operations: t.operations, Bytes: t.bytes, Off: off, Kernels: w.kernels, Tile: t.tile}, err
}

// start does what wants no operands, so that what nothing does is known before they are made.
func (t *task) start(b *bench, w *work) error {
	if t.library == nil {
		return nil
	}
	run, workspace, done, err := t.library()
	if err != nil {
		return err
	}
	w.done, w.kernels = done, 1
	room := uintptr(0)
	if workspace > 0 {
		if room, err = b.alloc(workspace); err != nil {
			return err
		}
		w.buffers["workspace"] = room
	}
	w.run = func() error { return run(b.stream, w.buffers, room) }
	return nil
}

// prepare compiles and loads kernels, and binds them to buffers; scratch buffers are allocated.
func (t *task) prepare(b *bench, w *work) error {
	if t.copies != "" {
		n := uintptr(t.out.count * t.out.typ.Size())
		w.run = func() error {
			return b.call("cuMemcpyDtoDAsync_v2", w.buffers[t.result], w.buffers[t.copies], n, b.stream)
		}
	}
	if t.plan == nil {
		return nil
	}
	plan, err := t.plan()
	if err != nil {
		return err
	}
	for _, s := range plan.Scratch {
		if w.buffers[s.Buffer] == 0 {
			if w.buffers[s.Buffer], err = b.alloc(s.Bytes); err != nil {
				return err
			}
		}
	}
	binaries, err := b.compile(plan)
	if err != nil {
		return err
	}
	var steps []*step
	functions := map[*gpukernel.Kernel]uintptr{}
	for _, l := range plan.Launches {
		if functions[l.Kernel] == 0 {
			module, f, err := b.load(binaries[l.Kernel], l.Kernel)
			if err != nil {
				return fmt.Errorf("%s: %w", l.Kernel.Name, err)
			}
			functions[l.Kernel], w.modules = f, append(w.modules, module)
		}
		steps = append(steps, newStep(functions[l.Kernel], l, w.buffers))
	}
	w.kernels = len(steps)
	w.run = func() error {
		for _, s := range steps {
			if err := b.launch(s); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// compared is how many elements are compared, drawn at random.
const compared = 400

// check runs a task once over a poisoned result, and returns how far elements drawn at random lie from float64.
func (t *task) check(b *bench, w *work, bytes int64, host map[string][]byte) (float64, error) {
	if t.want == nil {
		return 0, nil
	}
	if err := b.poison(w.buffers[t.result], bytes); err != nil {
		return 0, err
	}
	if err := w.run(); err != nil {
		return 0, err
	}
	out := make([]byte, bytes)
	if err := b.download(out, w.buffers[t.result]); err != nil {
		return 0, err
	}
	var off, norm float64
	for range compared {
		i := b.random.IntN(t.out.count)
		want := t.want(host, i)
		e := element(out, t.out.typ, i) - want
		off, norm = off+e*e, norm+want*want
	}
	off = math.Sqrt(off / norm)
	if !(off < t.tolerance) {
		return off, &fault{wrong, fmt.Sprintf("the result is off by %.2g, and %.2g is allowed", off, t.tolerance)}
	}
	for i := range t.out.count {
		if !written(out, t.out.typ, i) {
			return off, &fault{wrong, fmt.Sprintf("element %d is not written", i)}
		}
	}
	return off, nil
}

// byProducts returns a product of a library's.
func (b *bench) byProducts(s gpukernel.ProductShape) func() (libraryRun, int64, func(), error) {
	return func() (libraryRun, int64, func(), error) {
		if b.products == nil {
			return nil, 0, nil, b.why[blasName]
		}
		p, err := b.products.Product(s, 64<<20)
		if err != nil {
			return nil, 0, nil, err
		}
		return func(stream uintptr, at map[string]uintptr, workspace uintptr) error {
			return p.Run(stream, at["a"], at["b"], at["c"], nil, workspace)
		}, p.Workspace, p.Close, nil
	}
}

// byConvolutions returns a convolution of a library's, with its bias and ReLU.
func (b *bench) byConvolutions(s gpukernel.ConvShape) func() (libraryRun, int64, func(), error) {
	return func() (libraryRun, int64, func(), error) {
		if b.convolutions == nil {
			return nil, 0, nil, b.why[dnnName]
		}
		c, err := b.convolutions.Convolution(s, 1<<30)
		if err == nil && c.Done < len(s.Finish) {
			c.Close()
			err = fmt.Errorf("%w: cuDNN's convolution with this behind it", gpukernel.ErrUnsupported)
		}
		if err != nil {
			return nil, 0, nil, err
		}
		return func(stream uintptr, at map[string]uintptr, workspace uintptr) error {
			return c.Run(stream, at["a"], at["b"], at["c"], []uint64{uint64(at["operand0"]), 0}, workspace)
		}, c.Workspace, c.Close, nil
	}
}
