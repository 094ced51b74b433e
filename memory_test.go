package carve_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// counting is an allocator that counts its blocks, knows which bytes are its own, and may run out.
type counting struct {
	mu     sync.Mutex
	blocks map[*byte]device.Memory
	made   int
	held   int64
	wrong  []string
	fail   func(call int) bool
}

func newCounting() *counting { return &counting{blocks: map[*byte]device.Memory{}} }

var errEmpty = errors.New("the arena of pinned pages is empty")

func (c *counting) Alloc(size int64) (device.Memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	if c.fail != nil && c.fail(c.made-1) {
		return device.Memory{}, fmt.Errorf("%w: %w", device.ErrOutOfMemory, errEmpty)
	}
	m, err := device.Host.Alloc(size)
	if err != nil {
		return device.Memory{}, err
	}
	m.Handle = uintptr(c.made)
	c.blocks[unsafe.SliceData(m.Data)] = m
	c.held += int64(len(m.Data))
	return m, nil
}

func (c *counting) Free(m device.Memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, ok := c.blocks[unsafe.SliceData(m.Data)]
	if !ok || own.Handle != m.Handle {
		c.wrong = append(c.wrong, fmt.Sprintf("block %d is freed, but is not held", m.Handle))
		return
	}
	delete(c.blocks, unsafe.SliceData(m.Data))
	c.held -= int64(len(own.Data))
	device.Host.Free(own)
}

func (c *counting) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// balanced expects that every block came back, once.
func (c *counting) balanced() {
	GinkgoHelper()
	c.mu.Lock()
	defer c.mu.Unlock()
	Expect(c.wrong).To(BeEmpty())
	Expect(c.held).To(BeZero())
	Expect(c.blocks).To(BeEmpty())
}

// batches is a chain of layers over batches of any size.
const batches = `graph {
  opset 17
  input %x: f32[N,256]
  %a = Relu(%x)
  %b = Sigmoid(%a)
  %c = Add(%a, %b)
  %d = Mul(%c, %b)
  output %d
}`

func batchesOf(n int) map[string]tensor.Value {
	return map[string]tensor.Value{"x": wave(n, 256)}
}

// onFake is options for a fake device alone.
func onFake(b *fake.Backend) *carve.Options {
	o := withBackends(b)
	o.MaxSessions = 4
	return o
}

func deviceMemory(p *carve.Program, name string) carve.DeviceMemory {
	GinkgoHelper()
	for _, d := range p.Memory().Devices {
		if d.Name == name {
			return d
		}
	}
	Fail("there is no device " + name)
	return carve.DeviceMemory{}
}

var _ = Describe("Options.Allocator", func() {
	It("gives arenas, packed and copied constants, and gets everything back on Close", func(ctx SpecContext) {
		c, m := newCounting(), digits(ctx)
		p := mustCompile(ctx, m, &carve.Options{Allocator: c, CopyWeights: true})
		packed := c.bytes()
		mem := p.Memory()
		Expect(packed).To(And(Equal(mem.PackedWeights+mem.CopiedWeights), BeNumerically(">", 0)))
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		for _, n := range []int{1, 7, 2} {
			got, err := s.Run(ctx, digitsInput(n))
			Expect(err).NotTo(HaveOccurred())
			want := floats(referenceOutputs(ctx, m, digitsInput(n))["probabilities"])
			for i, x := range floats(got["probabilities"]) {
				Expect(x).To(BeNumerically("~", want[i], 1e-6))
			}
			Expect(c.bytes()).To(Equal(packed + p.Memory().Arenas + p.Memory().Kept))
		}
		Expect(p.Memory().Arenas).To(BeNumerically(">", 0))
		Expect(s.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		c.balanced()
		other := mustCompile(ctx, m, nil)
		_, err = other.Run(ctx, digitsInput(1))
		Expect(err).NotTo(HaveOccurred(), "the model is whole without that Program's memory")
		Expect(other.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
	})

	It("gives what conversions between devices lie in on their way", func(ctx SpecContext) {
		c, b := newCounting(), fake.New(fake.Options{Devices: 2, NoPeers: true})
		second, err := b.On(b.Devices()[1].ID())
		Expect(err).NotTo(HaveOccurred())
		o := withBackends(part{b, []string{"Relu", "Add"}}, part{second, []string{"Sigmoid", "Mul"}})
		o.Allocator = c
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), o)
		_, err = p.Run(ctx, batchesOf(8))
		Expect(err).NotTo(HaveOccurred())
		Expect(c.bytes()).To(BeNumerically(">=", 8*256*4))
		Expect(p.Close()).To(Succeed())
		c.balanced()
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("gets everything back whichever of its calls fails", func(ctx SpecContext) {
		m := digits(ctx)
		defer m.Close()
		calls := newCounting()
		p := mustCompile(ctx, m, &carve.Options{Allocator: calls, CopyWeights: true})
		_, err := p.Run(ctx, digitsInput(3))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		Expect(calls.made).To(BeNumerically(">=", 3))
		failed := 0
		for k := range calls.made {
			c := newCounting()
			c.fail = func(call int) bool { return call >= k }
			p, err := carve.Compile(ctx, m, &carve.Options{Allocator: c, CopyWeights: true})
			if err == nil {
				_, err = p.Run(ctx, digitsInput(3))
				Expect(p.Close()).To(Succeed())
			}
			Expect(err).To(MatchError(errEmpty), "call %d", k)
			failed++
			c.balanced()
		}
		Expect(failed).To(Equal(calls.made))
	})

	It("that breaks its contract is told of, and gets the block back", func(ctx SpecContext) {
		short := &shortAllocator{counting: newCounting()}
		_, err := carve.Compile(ctx, digits(ctx), &carve.Options{Allocator: short})
		Expect(err).To(MatchError(device.ErrAllocator))
		short.balanced()
	})
})

// shortAllocator gives half of what it is asked for.
type shortAllocator struct{ *counting }

func (s *shortAllocator) Alloc(size int64) (device.Memory, error) { return s.counting.Alloc(size / 2) }

var _ = Describe("Options.DeviceLimits", func() {
	arena := func(ctx context.Context, n int) int64 {
		GinkgoHelper()
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), onFake(fake.New(fake.Options{})))
		defer p.Close()
		_, err := p.Run(ctx, batchesOf(n))
		Expect(err).NotTo(HaveOccurred())
		return deviceMemory(p, "device12:100").InUse
	}

	It("are errors that name device, need, use and limit", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		o := onFake(b)
		limit := arena(ctx, 16)
		o.DeviceLimits = map[string]int64{"device12:100": limit, "host": 1 << 30}
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), o)
		_, err := p.Run(ctx, batchesOf(16))
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, batchesOf(17))
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
		var at *device.LimitError
		Expect(errors.As(err, &at)).To(BeTrue())
		Expect(at.Device).To(Equal("device12:100"))
		Expect(at.Need).To(BeNumerically(">", limit))
		Expect(at.Limit).To(Equal(limit))
		Expect(err.Error()).To(HaveSuffix(fmt.Sprintf("%d bytes with 0 in use, limit %d on device12:100", at.Need, limit)))
		_, err = p.Run(ctx, batchesOf(16))
		Expect(err).NotTo(HaveOccurred())
		Expect(deviceMemory(p, "device12:100")).To(And(HaveField("Limit", limit), HaveField("Peak", limit)))
		Expect(p.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("have idle sessions make room before there is an error", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		o := onFake(b)
		one := arena(ctx, 16)
		o.DeviceLimits = map[string]int64{"device12:100": 2*one + one/2}
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), o)
		in := batchesOf(16)
		want, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		var sessions []*carve.Session
		for range 5 {
			s, err := p.NewSession()
			Expect(err).NotTo(HaveOccurred())
			sessions = append(sessions, s)
		}
		for range 3 {
			for _, s := range sessions {
				got, err := s.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				Expect(floats(got["d"])).To(Equal(floats(want["d"])))
				Expect(b.Stats().Held).To(BeNumerically("<=", 2*one+one/2))
			}
		}
		got, err := sessions[0].Run(ctx, batchesOf(40))
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(got["d"])).To(HaveLen(40 * 256))
		for _, s := range sessions {
			Expect(s.Close()).To(Succeed())
		}
		Expect(p.Close()).To(Succeed())
		Expect(b.Stats().Peak).To(BeNumerically("<=", 2*one+one/2))
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("count what a run holds beside arenas against the host's", func(ctx SpecContext) {
		p := mustCompile(ctx, textModel(collecting), &carve.Options{DeviceLimits: map[string]int64{"host": 256 << 10}})
		defer p.Close()
		in := func(n int64) map[string]tensor.Value {
			return map[string]tensor.Value{"m": tensor.Scalar(n), "x": wave(1024)}
		}
		_, err := p.Run(ctx, in(8))
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, in(200))
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
		Expect(err).To(MatchError(ContainSubstring("limit 262144 on host")))
		Expect(deviceMemory(p, "host").Beside).To(BeZero())
		_, err = p.Run(ctx, in(8))
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("are refused where they make no sense", func(ctx SpecContext, name string, n int64, want error) {
		_, err := carve.Compile(ctx, carve.FromGraph(parseGraph(batches)), &carve.Options{DeviceLimits: map[string]int64{name: n}})
		Expect(err).To(MatchError(want))
		Expect(err).To(MatchError(ContainSubstring(name)))
	},
		Entry("no such device", "cuda:7", int64(1), backend.ErrNoDevice),
		Entry("no bytes", "host", int64(0), carve.ErrInput),
		Entry("negative", "host", int64(-1), carve.ErrInput),
	)

	It("and devices that run out have idle memory used, others fail typed, nothing is lost", func(ctx SpecContext) {
		one := arena(ctx, 16)
		for seed := uint64(0); seed < 40; seed++ {
			fail := fake.FailSome(seed, 0.2, fake.Alloc)
			b := fake.New(fake.Options{Memory: 3 * one, Seed: seed, Fail: fail})
			o := onFake(b)
			o.DeviceLimits = map[string]int64{"device12:100": 2 * one}
			p, err := carve.Compile(ctx, carve.FromGraph(parseGraph(batches)), o)
			Expect(err).NotTo(HaveOccurred())
			var group sync.WaitGroup
			for g := range 3 {
				group.Go(func() {
					defer GinkgoRecover()
					for k := range 6 {
						n := 4 + (g*5+k*3)%12
						got, err := p.Run(ctx, batchesOf(n))
						if err != nil {
							Expect(errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, carve.ErrMemoryLimit)).To(BeTrue(), "%v", err)
							continue
						}
						Expect(floats(got["d"])).To(HaveLen(n * 256))
						if k == 3 {
							p.Trim()
						}
					}
				})
			}
			group.Wait()
			Expect(p.Close()).To(Succeed())
			Expect(b.Stats().Peak).To(BeNumerically("<=", 3*one))
			Expect(b.Faults()).To(BeEmpty(), "seed %d", seed)
			Expect(b.Leaks()).To(BeEmpty(), "seed %d", seed)
		}
	})
})

var _ = Describe("a session near MaxArenaBytes", func() {
	const found = `graph {
  opset 17
  input %x: f32[N]
  %i = NonZero(%x)
  %t = Cast(%i; to = 1)
  %s = ReduceSum(%t; keepdims = 0)
  output %s
}`
	run := func(ctx context.Context, p *carve.Program, n int) error {
		GinkgoHelper()
		in := make([]float32, n)
		sum := float32(0)
		for i := range in {
			in[i] = 1
			sum += float32(i)
		}
		out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(in, n)})
		if err == nil {
			Expect(floats(out["s"])).To(Equal([]float32{sum}))
		}
		return err
	}

	It("gives up what it keeps for other shapes before there is an error", func(ctx SpecContext) {
		b := fake.New(fake.Options{Dynamic: true})
		o := onFake(b)
		o.Properties = map[string][]property.SubgraphProperty{"fake": {alone{}}} // values between groups
		p := mustCompile(ctx, carve.FromGraph(parseGraph(found)), o)
		Expect(run(ctx, p, 1000)).To(Succeed())
		one := p.Memory().Arenas
		Expect(run(ctx, p, 999)).To(Succeed())
		Expect(p.Memory().Arenas).To(BeNumerically(">", one*3/2), "without a limit both shapes keep what they have")
		Expect(p.Close()).To(Succeed())

		o.MaxArenaBytes = one * 7 / 4 // the kernels count what they work in
		p = mustCompile(ctx, carve.FromGraph(parseGraph(found)), o)
		for _, n := range []int{1000, 999, 998, 1000} {
			Expect(run(ctx, p, n)).To(Succeed())
			Expect(p.Memory().Arenas).To(BeNumerically("<=", o.MaxArenaBytes))
		}
		err := run(ctx, p, 2000)
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
		var at *device.LimitError
		Expect(errors.As(err, &at)).To(BeTrue())
		Expect(*at).To(And(HaveField("Device", ""), HaveField("Limit", o.MaxArenaBytes)))
		Expect(run(ctx, p, 700)).To(Succeed(), "in the larger arena")
		Expect(p.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})
})

var _ = Describe("memory that sessions give back", func() {
	It("is there for the next, and is not more than was in use at one time", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), onFake(b))
		for range 5 {
			s, err := p.NewSession()
			Expect(err).NotTo(HaveOccurred())
			_, err = s.Run(ctx, batchesOf(16))
			Expect(err).NotTo(HaveOccurred())
			Expect(s.Close()).To(Succeed())
		}
		Expect(deviceMemory(p, "device12:100")).To(And(HaveField("Fresh", int64(1)), HaveField("Reused", int64(4)), HaveField("InUse", int64(0))))
		Expect(p.Memory().Arenas).To(BeZero())
		Expect(p.Memory().Kept).To(BeNumerically(">", 0))
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		for n := 1; n < 64; n += 3 {
			_, err = s.Run(ctx, batchesOf(n))
			Expect(err).NotTo(HaveOccurred())
			d := deviceMemory(p, "device12:100")
			Expect(d.InUse + d.Kept).To(Equal(b.Stats().Held))
			Expect(d.InUse + d.Kept).To(BeNumerically("<=", d.Peak))
		}
		Expect(s.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("and that of idle sessions goes back with Trim, which says how much; results stay", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), onFake(b))
		first, err := p.Run(ctx, batchesOf(16))
		Expect(err).NotTo(HaveOccurred())
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Run(ctx, batchesOf(9))
		Expect(err).NotTo(HaveOccurred())
		held := p.Memory().Arenas + p.Memory().Kept
		Expect(held).To(And(BeNumerically(">", 0), Equal(b.Stats().Held)))
		Expect(p.Trim()).To(Equal(held))
		Expect(b.Stats().Held).To(BeZero())
		Expect(p.Trim()).To(BeZero())
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Dims).To(HaveKeyWithValue("N", int64(9)), "the shapes that were run last are known")
		again, err := p.Run(ctx, batchesOf(16))
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(again["d"])).To(Equal(floats(first["d"])))
		_, err = s.Run(ctx, batchesOf(9))
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		Expect(p.Trim()).To(BeZero())
		Expect((*carve.Program)(nil).Trim()).To(BeZero())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("leaves runs under way what they have", func(ctx SpecContext) {
		b := fake.New(fake.Options{Delay: 50_000})
		p := mustCompile(ctx, carve.FromGraph(parseGraph(batches)), onFake(b))
		want := map[int][]float32{}
		for n := 1; n < 6; n++ {
			out, err := p.Run(ctx, batchesOf(n))
			Expect(err).NotTo(HaveOccurred())
			want[n] = floats(out["d"])
		}
		stop := make(chan struct{})
		var trims, runs sync.WaitGroup
		trims.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.Trim()
				}
			}
		})
		for g := range 3 {
			runs.Go(func() {
				defer GinkgoRecover()
				s, err := p.NewSession()
				Expect(err).NotTo(HaveOccurred())
				for k := range 30 {
					n := 1 + (g+k)%5
					run := p.Run
					if k%2 == 0 {
						run = s.Run
					}
					out, err := run(ctx, batchesOf(n))
					Expect(err).NotTo(HaveOccurred())
					Expect(floats(out["d"])).To(Equal(want[n]))
				}
				Expect(s.Close()).To(Succeed())
			})
		}
		runs.Wait()
		trims.Go(func() { defer GinkgoRecover(); Expect(p.Close()).To(Succeed()) })
		close(stop)
		trims.Wait()
		Expect(p.Memory().Devices).To(BeEmpty())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})
})

var _ = Describe("dims of inputs that are expressions", func() {
	doubled := `graph {
  opset 17
  input %x: f32[N]
  input %y: f32[2*N]
  %c = Concat(%x, %x; axis = 0)
  %d = Add(%c, %y)
  output %d
}`
	alone := `graph {
  opset 17
  input %y: f32[2*N+1]
  %d = Relu(%y)
  output %d
}`
	run := func(ctx context.Context, text string, in map[string]tensor.Value) (map[string]tensor.Value, error) {
		GinkgoHelper()
		p := mustCompile(ctx, carve.FromGraph(parseGraph(text)), nil)
		defer p.Close()
		return p.Run(ctx, in)
	}

	It("agree with the symbols", func(ctx SpecContext) {
		out, err := run(ctx, doubled, map[string]tensor.Value{"x": wave(3), "y": wave(6)})
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(out["d"])).To(HaveLen(6))
	})

	It("that do not are an error that names the input", func(ctx SpecContext) {
		_, err := run(ctx, doubled, map[string]tensor.Value{"x": wave(3), "y": wave(7)})
		Expect(err).To(MatchError(carve.ErrInput))
		var at *carve.InputError
		Expect(errors.As(err, &at)).To(BeTrue())
		Expect(*at).To(And(HaveField("Name", "y"), HaveField("Problem", "wrong shape"), HaveField("Expected", ContainSubstring("[6]")), HaveField("Found", "[7]")))
	})

	It("give the symbols that nothing else does", func(ctx SpecContext) {
		out, err := run(ctx, alone, map[string]tensor.Value{"y": wave(9)})
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(out["d"])).To(HaveLen(9))
		p := mustCompile(ctx, carve.FromGraph(parseGraph(alone)), nil)
		defer p.Close()
		r, err := p.Report(ctx, map[string][]int{"y": {9}})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Dims).To(Equal(map[string]int64{"N": 4}))
	})

	DescribeTable("that no symbol gives are an error", func(ctx SpecContext, n int) {
		_, err := run(ctx, alone, map[string]tensor.Value{"y": tensor.From(make([]float32, n), n)})
		var at *carve.InputError
		Expect(errors.As(err, &at)).To(BeTrue(), "%v", err)
		Expect(at.Name).To(Equal("y"))
	},
		Entry("between two", 4),
		Entry("below the first", 0),
	)

	It("that two of them give differently are an error", func(ctx SpecContext) {
		const both = `graph {
  opset 17
  input %x: f32[2*N]
  input %y: f32[3*N]
  %a = Relu(%x)
  %b = Relu(%y)
  output %a
  output %b
}`
		_, err := run(ctx, both, map[string]tensor.Value{"x": wave(4), "y": wave(6)})
		Expect(err).NotTo(HaveOccurred())
		_, err = run(ctx, both, map[string]tensor.Value{"x": wave(4), "y": wave(9)})
		Expect(err).To(MatchError(carve.ErrInput))
	})

	It("keep to the bounds of their symbols", func(ctx SpecContext) {
		p := mustCompile(ctx, carve.FromGraph(parseGraph(alone)), &carve.Options{Bounds: map[string]int{"N": 4}})
		defer p.Close()
		_, err := p.Run(ctx, map[string]tensor.Value{"y": wave(9)})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"y": wave(11)})
		Expect(err).To(MatchError(carve.ErrInput))
	})
})
