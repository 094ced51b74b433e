package carve_test

import (
	"context"
	"errors"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

const mixed = `graph {
  opset 17
  input %x: f32[N,6]
  input %z: f32[N,6]
  %a = Exp(%x)
  %b = Sigmoid(%z)
  %c = Add(%a, %b)
  %d = Tanh(%c)
  %e = Mul(%d, %z)
  %f = Sub(%e, %x)
  %g = Relu(%f)
  output %d
  output %g
  output %x
}`

// operandsOf does runs with operands that lie wherever a seed puts them: on either device or the host, with strides, at odd
// offsets, ready later. It returns how many failed, with the injected error, and how many gave what they should.
func operandsOf(ctx context.Context, b *fake.Backend, seed uint64) (failed, right int) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(seed, 17))
	second, err := b.On(b.Devices()[1].ID())
	Expect(err).NotTo(HaveOccurred())
	var ops [2][]string
	for _, op := range []string{"Exp", "Sigmoid", "Add", "Tanh", "Mul", "Sub", "Relu"} {
		if k := r.IntN(3); k < 2 {
			ops[k] = append(ops[k], op)
		}
	}
	o := withBackends(part{b, ops[0]}, part{second, ops[1]})
	o.Backends = append(o.Backends, backend.Config{Name: "reference"})
	o.Streams, o.MaxSessions = 1+int(seed%2), 1+int(seed%3)
	m := textModel(mixed)
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		Expect(errors.Is(err, fake.ErrInjected)).To(BeTrue(), "seed %d: %v", seed, err)
		return 1, 0
	}
	for range 6 {
		c := &operandCase{ctx: ctx, b: b, r: r}
		if c.run(p, m) {
			right++
		} else {
			failed++
		}
		c.close()
		if r.IntN(3) == 0 {
			p.Retry()
		}
	}
	Expect(p.Close()).To(Succeed())
	Expect(b.Faults()).To(BeEmpty(), "seed %d", seed)
	Expect(b.Leaks()).To(BeEmpty(), "seed %d", seed)
	return failed, right
}

// operandCase is one run and what it took.
type operandCase struct {
	ctx  context.Context
	b    *fake.Backend
	r    *rand.Rand
	free []func()
	err  error // that setting up met with
}

func (c *operandCase) close() {
	for i := len(c.free) - 1; i >= 0; i-- {
		c.free[i]()
	}
}

// operand returns a tensor of n rows in a random place, which holds x where that is not nil, and a function that reads it.
func (c *operandCase) operand(n int, x *tensor.Tensor) (*carve.Formatted, func() ([]float32, error)) {
	pad, odd := c.r.IntN(2)*c.r.IntN(4), c.r.IntN(2)*4*c.r.IntN(40)
	t := &tensor.Tensor{DType: tensor.Float32, Shape: []int{n, 6}, Offset: odd}
	if pad > 0 {
		t.Strides = []int{6 + pad, 1}
	}
	if c.r.IntN(4) == 0 && n > 1 {
		t.Strides = []int{1, n + pad}
	}
	strides := t.Strides
	if strides == nil {
		strides = []int{6, 1}
	}
	size := odd + 4*(1+(n-1)*strides[0]+5*strides[1])
	bytes, err := tensor.New(tensor.Uint8, size)
	Expect(err).NotTo(HaveOccurred())
	each := func(buf []byte, fn func(i int, at *float32)) {
		all := tensor.Of[float32](&tensor.Tensor{DType: tensor.Float32, Shape: []int{(len(buf) - odd) / 4}, Data: buf, Offset: odd})
		for i := range 6 * n {
			fn(i, &all[i/6*strides[0]+i%6*strides[1]])
		}
	}
	if x != nil {
		each(bytes.Data, func(i int, at *float32) { *at = tensor.Of[float32](x)[i] })
	}
	f := &carve.Formatted{Tensor: t}
	read := func() []float32 {
		out := make([]float32, 6*n)
		each(bytes.Data, func(i int, at *float32) { out[i] = *at })
		return out
	}
	k := c.r.IntN(3)
	if k == 2 {
		t.Data = bytes.Data
		return f, func() ([]float32, error) { return read(), nil }
	}
	c.onDevice(f, c.b.Devices()[k], bytes.Data, x != nil)
	return f, func() ([]float32, error) {
		err := c.b.Devices()[k].CopyFrom(c.ctx, nil, bytes.Data, device.MemoryOf(t), 0)
		return read(), err
	}
}

// onDevice gives a tensor storage on a device, filled now or, by a stream of the caller's, later.
func (c *operandCase) onDevice(f *carve.Formatted, d device.Device, data []byte, fill bool) {
	m, err := d.Alloc(int64(len(data)))
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	c.free = append(c.free, func() { d.Free(m) })
	f.Device, f.Handle = d.ID(), m.Handle
	if !fill || c.r.IntN(2) == 0 {
		c.err = errors.Join(c.err, d.CopyTo(c.ctx, nil, m, 0, data))
		return
	}
	s, err := d.NewStream()
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	c.free = append(c.free, func() { s.Close() })
	c.err = errors.Join(c.err, d.CopyTo(c.ctx, s, m, 0, data))
	if f.Ready, err = s.Record(); err != nil {
		f.Ready = nil
		c.err = errors.Join(c.err, err)
		return
	}
	c.free = append(c.free, f.Ready.Close)
}

// run does it, and compares.
func (c *operandCase) run(p *carve.Program, m *carve.Model) bool {
	GinkgoHelper()
	n := 1 + c.r.IntN(3)
	x, z := wave(n, 6), wave(n, 6)
	for i := range tensor.Of[float32](z) {
		tensor.Of[float32](z)[i] /= 2
	}
	want := referenceOutputs(c.ctx, m, map[string]tensor.Value{"x": x, "z": z})
	var in, out []*carve.Formatted
	var read []func() ([]float32, error)
	for _, t := range []*tensor.Tensor{x, z} {
		f, _ := c.operand(n, t)
		in = append(in, f)
	}
	for range 3 {
		f, fn := c.operand(n, nil)
		if c.r.IntN(5) == 0 {
			f, fn = nil, nil
		}
		out, read = append(out, f), append(read, fn)
	}
	if c.err != nil {
		Expect(errors.Is(c.err, fake.ErrInjected)).To(BeTrue(), "%v", c.err)
		return false
	}
	injected := func(err error) bool {
		if err != nil {
			Expect(errors.Is(err, fake.ErrInjected)).To(BeTrue(), "%v", err)
		}
		return err != nil
	}
	if c.r.IntN(3) == 0 { // to the host, by name
		got, err := p.Run(c.ctx, map[string]tensor.Value{"x": in[0], "z": in[1]})
		if injected(err) {
			return false
		}
		Expect(apart(got, want)).To(BeEmpty())
		return true
	}
	e, err := p.Enqueue(c.ctx, in, out)
	if injected(err) {
		return false
	}
	err = e.Wait(c.ctx)
	e.Close()
	if injected(err) {
		return false
	}
	for k, name := range []string{"d", "g", "x"} {
		if out[k] == nil {
			continue
		}
		got, err := read[k]()
		if injected(err) {
			return false
		}
		for i, w := range floats(want[name]) {
			Expect(got[i]).To(BeNumerically("~", w, 1e-5), "%s[%d]", name, i)
		}
	}
	return true
}
