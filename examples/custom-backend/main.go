// Command custom-backend runs a network on cpu and on a backend of the user's own: an imaginary texture unit with memory of
// its own, in which images lie in Z-order, so that the four pixels of a 2 by 2 window are neighbours and pooling is a walk
// through memory.
//
//	go run ./examples/custom-backend
//
// It prints the result, how far it is from that of the reference backend, and how the network was carved: the texture
// unit takes the value between the first convolution and the second pooling from cpu as it is, in NCHW16c.
//
// All that a user writes is in this file: a device whose memory has handles that are no addresses, so that only the
// device's own copies reach it; a layout that only the backend understands; converters; and the backend.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// The device.

// unit is the texture unit's memory. A handle is a ticket for a block, not an address.
type unit struct {
	mu     sync.Mutex
	blocks map[uintptr][]byte
	last   uintptr
}

var errHandle = errors.New("no such block of the texture unit")

// ID implements device.Device.
func (u *unit) ID() tensor.DeviceID { return tensor.DeviceID{Type: tensor.ExtDev, Index: 7} }

// Alloc implements device.Device.
func (u *unit) Alloc(size int64) (device.Memory, error) {
	if size < 0 || size > 1<<30 {
		return device.Memory{}, fmt.Errorf("%w: %d bytes", device.ErrOutOfMemory, size)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	u.blocks[u.last] = make([]byte, size)
	return device.Memory{Device: u.ID(), Handle: u.last, Size: size}, nil
}

// Free implements device.Device: blocks are not kept.
func (u *unit) Free(m device.Memory) { u.DirectFree(m) }

// DirectFree implements device.Device.
func (u *unit) DirectFree(m device.Memory) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.blocks, m.Handle)
}

// ReleaseAll implements device.Device: there is nothing that Free kept.
func (u *unit) ReleaseAll() {}

// at returns n bytes of a block: only the unit itself, its copies and its kernels, sees its memory.
func (u *unit) at(handle uintptr, off, n int64) ([]byte, error) {
	u.mu.Lock()
	b, ok := u.blocks[handle]
	u.mu.Unlock()
	switch {
	case n == 0:
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("%w: %d", errHandle, handle)
	case off < 0 || n < 0 || off > int64(len(b))-n:
		return nil, fmt.Errorf("%w: bytes %d to %d of %d", device.ErrBounds, off, off+n, len(b))
	}
	return b[off : off+n], nil
}

// CopyTo implements device.Device.
func (u *unit) CopyTo(_ context.Context, s device.Stream, dst device.Memory, off int64, src []byte) error {
	b, err := u.at(dst.Handle, off, int64(len(src)))
	if err != nil {
		return err
	}
	return u.on(s, func() error {
		copy(b, src)
		return nil
	})
}

// CopyFrom implements device.Device.
func (u *unit) CopyFrom(_ context.Context, s device.Stream, dst []byte, src device.Memory, off int64) error {
	b, err := u.at(src.Handle, off, int64(len(dst)))
	if err != nil {
		return err
	}
	return u.on(s, func() error {
		copy(dst, b)
		return nil
	})
}

// CopyBetween implements device.Device.
func (u *unit) CopyBetween(_ context.Context, s device.Stream, dst device.Memory, dstOff int64, src device.Memory, srcOff, n int64) error {
	to, err := u.at(dst.Handle, dstOff, n)
	if err != nil {
		return err
	}
	from, err := u.at(src.Handle, srcOff, n)
	if err != nil {
		return err
	}
	return u.on(s, func() error {
		copy(to, from)
		return nil
	})
}

// NewStream implements device.Device. The unit does one thing after another, each by a call that returns when it is done:
// a ready-made queue, with a goroutine of its own, makes a stream of that.
func (u *unit) NewStream() (device.Stream, error) { return &device.Queue{}, nil }

// on does work on a stream, or at once where there is none.
func (u *unit) on(s device.Stream, work func() error) error {
	if s == nil {
		return work()
	}
	q, ok := s.(*device.Queue)
	if !ok {
		return device.ErrStream
	}
	q.Do(work)
	return nil
}

// The layout: float32 planes [P, P] per image and channel, P a power of two, pixels in Z-order, zeros around the image.
// Such an order is no permutation or blocking of dims, so to carve it is opaque.

// zOrder is the layout of the values of a texture unit.
func zOrder(u *unit) graph.Format {
	l, err := graph.OpaqueLayout("texture", "1", "z-order")
	if err != nil {
		panic(err) // the parts are constants
	}
	return graph.Format{Device: u.ID(), Layout: l}
}

// plane returns the side of a plane for images of h by w pixels.
func plane(h, w int) int { return 1 << bits.Len(uint(max(h, w, 1)-1)) }

// zIndex interleaves the bits of x and y.
func zIndex(y, x int) int { return spread(x) | spread(y)<<1 }

func spread(v int) int {
	out := 0
	for i := 0; v>>i != 0; i++ {
		out |= (v >> i & 1) << (2 * i)
	}
	return out
}

// size returns the bytes of a tensor [N, C, H, W].
func size(_ graph.Format, dt tensor.DType, d []int) (int64, error) {
	if dt != tensor.Float32 || len(d) != 4 {
		return 0, fmt.Errorf("%w: a texture of %v %v", tensor.ErrUnsupported, dt, d)
	}
	p := plane(d[2], d[3])
	n, err := tensor.NumElements([]int{d[0], d[1], p, p})
	return 4 * int64(n), err
}

// converters returns those from and to the host's row-major format, and one from cpu's blocked layout.
func converters(u *unit) []convert.Converter {
	z, cost := zOrder(u), convert.Cost{Fixed: 5000, PerByte: 0.3}
	supports := func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && rank == 4 }
	one := func(name string, from, to graph.Format, at func(d []int, n, c, y, x int) int) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: cost, Supports: supports, Size: size,
			Plan: func(dt tensor.DType, d []int) (convert.Move, error) { return u.plan(dt, d, to == z, at) }}
	}
	rowMajor := func(d []int, n, c, y, x int) int { return ((n*d[1]+c)*d[2]+y)*d[3] + x }
	blocked := func(d []int, n, c, y, x int) int { return (((n*((d[1]+15)/16)+c/16)*d[2]+y)*d[3]+x)*16 + c%16 }
	return []convert.Converter{
		one("texture-upload", graph.HostFormat, z, rowMajor),
		one("texture-upload-nchw16c", graph.On(graph.NCHW16c), z, blocked),
		one("texture-download", z, graph.HostFormat, rowMajor),
	}
}

// plan prepares a conversion: a table of where each pixel of the host's tensor lies in the texture. The host never touches
// the unit's memory: the texture is put together, or taken apart, in a buffer of the host's, which the device copies.
func (u *unit) plan(dt tensor.DType, d []int, upload bool, at func(d []int, n, c, y, x int) int) (convert.Move, error) {
	bytes, err := size(graph.Format{}, dt, d)
	if err != nil {
		return nil, err
	}
	p := plane(d[2], d[3])
	host, texture := make([]int, 0, d[0]*d[1]*d[2]*d[3]), make([]int, 0, d[0]*d[1]*d[2]*d[3])
	for i := range cap(host) {
		n, c, y, x := i/(d[1]*d[2]*d[3]), i/(d[2]*d[3])%d[1], i/d[3]%d[2], i%d[3]
		host = append(host, 4*at(d, n, c, y, x))
		texture = append(texture, 4*((n*d[1]+c)*p*p+zIndex(y, x)))
	}
	buffers := sync.Pool{New: func() any { b := make([]byte, bytes); return &b }}
	run := func(ctx context.Context, dst, src *tensor.Tensor) error {
		buffer := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		if upload {
			from := src.Data[src.Offset:]
			for i, t := range texture { // what lies around the image stays zero
				copy((*buffer)[t:t+4], from[host[i]:])
			}
			return u.CopyTo(ctx, nil, device.MemoryOf(dst), int64(dst.Offset), *buffer)
		}
		if err := u.CopyFrom(ctx, nil, *buffer, device.MemoryOf(src), int64(src.Offset)); err != nil {
			return err
		}
		to := dst.Data[dst.Offset:]
		for i, t := range texture {
			copy(to[host[i]:host[i]+4], (*buffer)[t:])
		}
		return nil
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
		d, s := *dst, *src // the tensors may be others when the stream comes to it
		return u.on(x.Stream, func() error { return run(ctx, &d, &s) })
	}, nil
}

// The backend.

// texture is the backend of one texture unit.
type texture struct{ u *unit }

func newTexture() *texture { return &texture{&unit{blocks: map[uintptr][]byte{}}} }

// Info implements backend.Backend.
func (t *texture) Info() backend.Info {
	return backend.Info{Name: "texture", Version: "1", Processor: "imaginary texture unit", Memory: 1 << 30, Threads: true}
}

// Devices implements backend.Backend.
func (t *texture) Devices() []device.Device { return []device.Device{t.u} }

// Converters implements backend.Backend.
func (t *texture) Converters() []convert.Converter { return converters(t.u) }

// Properties implements backend.Backend: the unit fuses nothing.
func (t *texture) Properties() []property.SubgraphProperty { return nil }

// Close implements backend.Backend.
func (t *texture) Close() error { return nil }

// Supports implements backend.Backend: pooling of 2 by 2 windows side by side.
func (t *texture) Supports(n *graph.Node) backend.Support {
	if !n.Is("MaxPool", "AveragePool") {
		return backend.No(property.Unsupported, "the unit only pools")
	}
	for _, name := range []string{"kernel_shape", "strides"} {
		if v, ok := n.Ints(name); !ok || len(v) != 2 || v[0] != 2 || v[1] != 2 {
			return backend.No(property.Attribute, "%s is %v, not 2 by 2", name, v)
		}
	}
	if v, _ := n.Ints("pads"); slices.ContainsFunc(v, func(x int64) bool { return x != 0 }) {
		return backend.No(property.Attribute, "pads are %v", v)
	}
	if v, _ := n.Ints("dilations"); slices.ContainsFunc(v, func(x int64) bool { return x != 1 }) {
		return backend.No(property.Attribute, "dilations are %v", v)
	}
	x := n.Inputs[0].Type
	if n.Str("auto_pad", "NOTSET") != "NOTSET" || x.DType != tensor.Float32 || len(n.Outputs) != 1 || !x.Backed() {
		return backend.No(property.Unsupported, "plain float32 pooling only")
	}
	for _, d := range x.Shape[2:] {
		if v, ok := d.Const(); !ok || v == 0 || v%2 != 0 {
			return backend.No(property.ShapeReason, "images of %v pixels: sides must be even", x.Shape[2:])
		}
	}
	return backend.Support{Signatures: []graph.Signature{graph.UniformSignature("z-order", n, zOrder(t.u))}}
}

// Compile implements backend.Backend.
func (t *texture) Compile(_ context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	order, err := sub.Topo()
	return &program{u: t.u, sub: sub, order: order}, err
}

// program is a compiled group, generic in the number of images.
type program struct {
	u     *unit
	sub   *graph.Graph
	order []*graph.Node
}

// Close implements backend.Executable.
func (p *program) Close() error { return nil }

// Specialize implements backend.Executable.
func (p *program) Specialize(_ context.Context, b graph.Bindings) (backend.Instance, error) {
	in := &instance{u: p.u, bytes: make([]int64, p.sub.ValueIDs()), at: make([]func(*backend.RunArgs) *tensor.Tensor, p.sub.ValueIDs())}
	r := &in.needs
	r.Steps = len(p.order)
	place := func(v *graph.Value) error {
		d, err := v.Type.Shape.Eval(b, nil)
		if err != nil {
			return err
		}
		in.bytes[v.ID], err = size(v.Format, v.Type.DType, d)
		return err
	}
	for i, v := range p.sub.Inputs {
		if err := place(v); err != nil {
			return nil, err
		}
		in.at[v.ID] = func(a *backend.RunArgs) *tensor.Tensor { return a.Inputs[i] }
		r.Inputs = append(r.Inputs, backend.PortUse{Bytes: in.bytes[v.ID], Last: r.Steps - 1})
	}
	for step, n := range p.order {
		v := n.Outputs[0]
		if err := place(v); err != nil {
			return nil, err
		}
		i := len(r.Buffers) // what stays inside of the group lies in buffers, which carve places
		r.Buffers = append(r.Buffers, backend.Buffer{Bytes: in.bytes[v.ID], First: step, Last: r.Steps - 1})
		in.at[v.ID] = func(a *backend.RunArgs) *tensor.Tensor { return a.Buffers[i] }
		in.steps = append(in.steps, kernel{from: n.Inputs[0].ID, to: v.ID, max: n.Is("MaxPool")})
		r.Labels = append(r.Labels, backend.StepInfo{Name: n.Name, Op: n.Op.String(), Origins: n.Provenance()})
	}
	for i, v := range p.sub.Outputs {
		in.at[v.ID] = func(a *backend.RunArgs) *tensor.Tensor { return a.Outputs[i] }
		for step, k := range in.steps {
			if k.to == v.ID {
				r.Buffers[step].Bytes = 0 // it is the caller's
			}
		}
		r.Outputs = append(r.Outputs, backend.PortUse{Bytes: in.bytes[v.ID], Last: r.Steps - 1})
	}
	return in, nil
}

// instance is a group for a concrete number of images.
type instance struct {
	u     *unit
	needs backend.Requirements
	steps []kernel
	bytes []int64                                 // by value id
	at    []func(*backend.RunArgs) *tensor.Tensor // by value id: where a run has it
}

// kernel pools one value into another.
type kernel struct {
	from, to int
	max      bool
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.needs }

// Enqueue implements backend.Instance: the unit works by itself, and the Event tells when it is done.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	q, ok := a.Stream.(*device.Queue)
	if !ok {
		return nil, device.ErrStream
	}
	return q.Do(func() error {
		for i := range in.steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := in.pool(&in.steps[i], a); err != nil {
				return err
			}
			if a.Trace != nil {
				a.Trace(i)
			}
		}
		return nil
	}), nil
}

// pool runs one kernel on the unit: four neighbours become one.
func (in *instance) pool(k *kernel, a *backend.RunArgs) error {
	from, to := in.at[k.from](a), in.at[k.to](a)
	src, err := in.u.at(from.Handle, int64(from.Offset), in.bytes[k.from])
	if err != nil {
		return err
	}
	dst, err := in.u.at(to.Handle, int64(to.Offset), in.bytes[k.to])
	if err != nil {
		return err
	}
	at := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])) }
	for i := range len(dst) / 4 {
		w, x, y, z := at(4*i), at(4*i+1), at(4*i+2), at(4*i+3)
		v := (w + x + y + z) / 4
		if k.max {
			v = max(w, x, y, z)
		}
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
	return nil
}

// The program.

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custom-backend:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	t := newTexture()
	defer t.Close()
	model := carve.FromGraph(network())
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{
		Backends: []backend.Config{{Name: "texture"}, {Name: "cpu"}},
		Open:     map[string]backend.Backend{"texture": t},
	})
	if err != nil {
		return err
	}
	defer program.Close()
	plain, err := carve.Compile(ctx, model, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	if err != nil {
		return err
	}
	defer plain.Close()

	x := make([]float32, 2*3*20*20)
	for i := range x {
		x[i] = float32(i%29)/14 - 1
	}
	input := map[string]tensor.Value{"x": tensor.From(x, 2, 3, 20, 20)}
	out, err := program.Run(ctx, input)
	if err != nil {
		return err
	}
	want, err := plain.Run(ctx, input)
	if err != nil {
		return err
	}
	y, z := tensor.Elements[float32](out["y"].(*tensor.Tensor)), tensor.Elements[float32](want["y"].(*tensor.Tensor))
	most := 0.0
	for i := range y {
		most = max(most, math.Abs(float64(y[i]-z[i])))
	}
	fmt.Fprintf(w, "y = %.4f …, at most %.0e from the reference backend\n", y[:5], most)
	r, err := program.Report(ctx, nil)
	if err != nil {
		return err
	}
	printReport(w, r)
	return nil
}

func printReport(w io.Writer, r *carve.Report) {
	fmt.Fprintln(w, "groups")
	for _, g := range r.Groups {
		fmt.Fprintf(w, "  %d on %s: %s\n", g.ID, g.Backend, strings.Join(g.Nodes, ", "))
	}
	fmt.Fprintln(w, "conversions at each run")
	for _, c := range r.Conversions {
		if !c.Constant {
			fmt.Fprintf(w, "  %s from %s to %s\n", c.Value, c.From, c.To)
		}
	}
	fmt.Fprintln(w, "memory")
	for _, d := range r.Devices {
		fmt.Fprintf(w, "  %s: arena %d bytes\n", d.Name, d.Arena)
	}
}

// network returns pooling, convolution, two poolings and a dense layer, for x [N, 3, 20, 20] and y [N, 10].
func network() *graph.Graph {
	g := graph.New("pools")
	node := func(op, name string, attrs []graph.Attr, inputs ...*graph.Value) *graph.Value {
		return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Attrs: attrs, Inputs: inputs, Outputs: []string{name + ".out"}}).Outputs[0]
	}
	window := []graph.Attr{graph.IntsAttr("kernel_shape", 2, 2), graph.IntsAttr("strides", 2, 2)}
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(3), graph.D(20), graph.D(20)}))
	h := node("AveragePool", "shrink", window, x)
	h = node("Conv", "conv", []graph.Attr{graph.IntsAttr("kernel_shape", 3, 3)}, h, g.AddConst("conv.weight", weights(20, 3, 3, 3)))
	h = node("MaxPool", "pool", window, node("Relu", "relu", nil, h))
	h = node("MaxPool", "pool again", window, h)
	h = node("Flatten", "flatten", nil, h)
	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "dense", Inputs: []*graph.Value{h, g.AddConst("w", weights(80, 10))}, Outputs: []string{"y"}})
	g.SetOutputs(y.Outputs[0])
	return g
}

// weights returns numbers between -0.5 and 0.5.
func weights(dims ...int) *tensor.Tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	state := uint32(n)
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = float32(state>>8)/(1<<24) - 0.5
	}
	return tensor.From(data, dims...)
}
